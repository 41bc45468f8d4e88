// SPDX-License-Identifier: MIT
// Rust values, the same ones in each run; see typed.c.
#![allow(dead_code)]
use std::hint::black_box;

#[derive(Clone, Copy, PartialEq)]
#[repr(u8)]
enum Mood {
    Calm = 1,
    Busy = 7,
}

struct Inner {
    a: i16,
    b: [u32; 3],
}

struct Item<'a> {
    id: i32,
    big: u64,
    real: f64,
    small: f32,
    yes: bool,
    letter: char,
    name: String,
    text: &'a str,
    inner: Inner,
    mood: Mood,
    pair: (i8, u16),
    numbers: Vec<i32>,
    next: Option<&'a Item<'a>>,
}

static LIMIT: i64 = 99;
static mut COUNTER: i32 = 5;

#[no_mangle]
#[inline(never)]
pub extern "C" fn step(n: i32, x: i64, d: f64) -> i32 {
    black_box(n) + black_box(x) as i32 + black_box(d) as i32
}

#[inline(never)]
fn look(n: i32, item: &Item, s: &str, owned: &String, byte: u8) -> usize {
    black_box(item);
    black_box(byte);
    s.len() + owned.len() + n as usize
}

fn main() {
    let first = make(9, "first");
    for n in 0..3 {
        let mut item = make(n, if n == 1 { "grüße" } else { "plain" });
        item.next = Some(&first);
        black_box(step(n, n as i64 * 1000, n as f64 + 0.5));
        let look = black_box(look as fn(i32, &Item, &str, &String, u8) -> usize);
        black_box(look(n, &item, item.text, &item.name, 200 + n as u8));
        unsafe { COUNTER += n }
    }
    black_box(&LIMIT);
}

fn make(n: i32, text: &str) -> Item<'_> {
    Item {
        id: n, big: u64::MAX - n as u64, real: n as f64 / 3.0, small: n as f32 + 0.25, yes: n & 1 == 1, letter: 'ß',
        name: format!("name {n}"), text, inner: Inner { a: -3 - n as i16, b: [1, 2, 3 + n as u32] },
        mood: if n & 1 == 1 { Mood::Busy } else { Mood::Calm }, pair: (-5, 60000), numbers: vec![n; 4], next: None,
    }
}
