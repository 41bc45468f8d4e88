// SPDX-License-Identifier: MIT
// Thread-local variables. look() is called in three threads; what they hold is printed before.
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<i64> = const { Cell::new(5) };
    static LAZY: Cell<u32> = Cell::new(std::process::id());
}

#[inline(never)]
pub fn look(n: i64) -> i64 {
    std::hint::black_box(n)
}

fn work(n: i64) {
    COUNT.with(|c| c.set(c.get() * n));
    LAZY.with(|c| c.set((n as u32).wrapping_mul(1000003)));
    println!("{} {} {}", n, COUNT.with(|c| c.get()), LAZY.with(|c| c.get()));
    look(n);
}

fn main() {
    work(1);
    std::thread::spawn(|| work(-2)).join().unwrap();
    std::thread::spawn(|| work(3)).join().unwrap();
    work(4);
}
