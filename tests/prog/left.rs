// SPDX-License-Identifier: MIT
// Panics through functions and caught. Prints for each function how often it was called, has returned and was left.
use std::panic;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

static CALLED: [AtomicI64; 3] = [const { AtomicI64::new(0) }; 3];
static RETURNED: [AtomicI64; 3] = [const { AtomicI64::new(0) }; 3];
static DROPPED: AtomicI64 = AtomicI64::new(0);

struct Guard(i64);

impl Drop for Guard {
    fn drop(&mut self) {
        DROPPED.fetch_add(self.0, Relaxed);
    }
}

#[no_mangle]
#[inline(never)]
fn rs_bottom(i: i64) -> i64 {
    CALLED[0].fetch_add(1, Relaxed);
    if i % 3 == 0 {
        panic::resume_unwind(Box::new(i));
    }
    RETURNED[0].fetch_add(1, Relaxed);
    i
}

#[no_mangle]
#[inline(never)]
fn rs_through(i: i64) -> i64 {
    CALLED[1].fetch_add(1, Relaxed);
    let g = Guard(i);
    let r = rs_bottom(i) + g.0;
    RETURNED[1].fetch_add(1, Relaxed);
    r
}

#[no_mangle]
#[inline(never)]
fn rs_catcher(i: i64) -> i64 {
    CALLED[2].fetch_add(1, Relaxed);
    let r = panic::catch_unwind(|| rs_through(i)).unwrap_or(-1);
    RETURNED[2].fetch_add(1, Relaxed);
    r
}

fn main() {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<i64>().unwrap());
    let threads = args.next().unwrap_or(1);
    let rounds = args.next().unwrap_or(8);
    let all: Vec<_> = (0..threads).map(|_| std::thread::spawn(move || (0..rounds).map(rs_catcher).sum::<i64>())).collect();
    let sum: i64 = all.into_iter().map(|t| t.join().unwrap()).sum();
    for (i, name) in ["rs_bottom", "rs_through", "rs_catcher"].iter().enumerate() {
        let (c, r) = (CALLED[i].load(Relaxed), RETURNED[i].load(Relaxed));
        println!("{} {} {} {}", name, c, r, c - r);
    }
    println!("sum {} dropped {}", sum, DROPPED.load(Relaxed));
}
