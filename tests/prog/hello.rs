// SPDX-License-Identifier: MIT

//! N calls of shop::work() on T threads, and of shop::fail(), through which a panic unwinds every third
//! time. `hello N T` prints N and how many panics there were; `hello serve T` serves "run N" and "stop".

use std::io::{self, BufRead, Write};
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

pub mod shop {
    #[inline(never)]
    pub fn work(x: u64) -> u64 {
        std::hint::black_box(x).wrapping_mul(3).wrapping_add(1)
    }

    #[inline(never)]
    pub fn fail(x: u64) -> u64 {
        if std::hint::black_box(x) % 3 == 0 {
            std::panic::resume_unwind(Box::new(x));
        }
        x + 1
    }
}

static WRONG: AtomicU64 = AtomicU64::new(0);

fn run(n: u64, t: u64) {
    let all: Vec<_> = (0..t)
        .map(|k| {
            let share = n / t + u64::from(k < n % t);
            thread::spawn(move || {
                for i in 0..share {
                    if shop::work(i) != i * 3 + 1 {
                        WRONG.fetch_add(1, Ordering::SeqCst);
                    }
                }
            })
        })
        .collect();
    for one in all {
        one.join().unwrap();
    }
}

fn panics(n: u64) -> u64 {
    (0..n).filter(|&i| panic::catch_unwind(|| shop::fail(i)).is_err()).count() as u64
}

fn serve(t: u64) {
    println!("ready");
    io::stdout().flush().unwrap();
    for line in io::stdin().lock().lines() {
        let line = line.unwrap();
        if line == "stop" {
            break;
        }
        let n = line.trim_start_matches("run ").parse().unwrap();
        run(n, t);
        println!("done {}", n);
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let t = args[2].parse().unwrap();
    if args[1] == "serve" {
        serve(t);
    } else {
        let n = args[1].parse().unwrap();
        run(n, t);
        println!("{} {}", n, panics(100));
    }
    if WRONG.load(Ordering::SeqCst) != 0 {
        println!("bad: wrong results");
        std::process::exit(3);
    }
    if args[1] == "serve" {
        println!("ok");
    }
}
