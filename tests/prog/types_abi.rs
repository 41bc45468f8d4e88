// SPDX-License-Identifier: MIT
// Rust's ways to hand over: numbers, slices, options, wrappers, small and large structs.
// Prints function|parameter|bytes, the bytes of fields only: padding may be anything.

fn bytes<T>(func: &str, which: &str, v: &T) {
    let p = v as *const T as *const u8;
    let n = std::mem::size_of::<T>();
    let hex: String = (0..n).map(|i| format!("{:02x}", unsafe { *p.add(i) })).collect();
    println!("{}|{}|{}", func, which, hex);
}

#[derive(Clone, Copy)]
pub struct Wrapper(u64);
#[derive(Clone, Copy)]
pub struct Pair { a: u64, b: u64 }
#[derive(Clone, Copy)]
pub struct Mixed { f: f64, n: u64 }
#[derive(Clone, Copy)]
pub struct Small { a: u16, b: u16, c: u16, d: u16 }
#[derive(Clone, Copy)]
pub struct Large { a: [u64; 4] }
#[derive(Clone, Copy)]
pub struct Three { pub a: u64, pub b: u64, pub c: u64 }
#[derive(Clone, Copy)]
pub enum Level { Low, High = 7 }

#[inline(never)]
pub fn numbers(a: u8, b: i32, c: f32, d: f64, e: bool, f: char, g: usize, h: u64, i: u16) -> u64 {
    let n = "types_abi::numbers";
    bytes(n, "0", &a); bytes(n, "1", &b); bytes(n, "2", &c); bytes(n, "3", &d); bytes(n, "4", &e);
    bytes(n, "5", &f); bytes(n, "6", &g); bytes(n, "7", &h); bytes(n, "8", &i);
    let r = a as u64 + g as u64 + h;
    bytes(n, "return", &r);
    r
}

#[inline(never)]
pub fn texts(a: &str, b: String, c: &[u32], d: &u32) -> usize {
    let n = "types_abi::texts";
    bytes(n, "0", &a); bytes(n, "1", &b); bytes(n, "2", &c); bytes(n, "3", &d);
    let r = a.len() + b.len() + c.len() + *d as usize;
    bytes(n, "return", &r);
    r
}

#[inline(never)]
pub fn structs(a: Wrapper, b: Pair, c: Mixed, d: Small, e: Large, f: Three, g: Level) -> Pair {
    let n = "types_abi::structs";
    bytes(n, "0", &a); bytes(n, "1", &b); bytes(n, "2", &c); bytes(n, "3", &d); bytes(n, "4", &e);
    bytes(n, "5", &f); bytes(n, "6", &g);
    let r = Pair { a: b.b + a.0, b: d.c as u64 + e.a[3] + c.n + d.a as u64 + d.b as u64 + d.d as u64 };
    bytes(n, "return", &r);
    r
}

#[inline(never)]
pub fn options(a: Option<&u32>, b: Option<u64>, c: Option<Box<u32>>, d: (u64, u64)) -> Mixed {
    let n = "types_abi::options";
    bytes(n, "0", &a); bytes(n, "1", &b); bytes(n, "2", &c); bytes(n, "3", &d);
    let r = Mixed { f: 2.5, n: d.1 + b.unwrap_or(0) };
    bytes(n, "return", &r);
    r
}

#[inline(never)]
pub fn large(n0: u64) -> Large {
    let n = "types_abi::large";
    bytes(n, "0", &n0);
    let r = Large { a: [n0, 2, 3, 4] };
    bytes(n, "return", &r);
    r
}

#[inline(never)]
pub fn wide(a: u128, b: u64) -> u128 {
    let n = "types_abi::wide";
    bytes(n, "0", &a); bytes(n, "1", &b);
    let r = a + b as u128;
    bytes(n, "return", &r);
    r
}

#[inline(never)]
pub fn unit_or(n0: u32, a: Result<(), u32>) -> Result<(), u32> {
    let n = "types_abi::unit_or";
    bytes(n, "0", &n0); bytes(n, "1", &a);
    let r = Err(n0 + 5);
    bytes(n, "return", &r);
    if a.is_ok() { Ok(()) } else { r }
}

// Numbers, or a number and a pointer, in the same place: whether they share a register has changed.
#[inline(never)]
pub fn mixed(n0: u64, a: Result<usize, Box<u64>>, b: Result<u64, i64>) -> Result<u64, &'static u64> {
    let n = "types_abi::mixed";
    bytes(n, "0", &n0); bytes(n, "1", &a); bytes(n, "2", &b);
    let r = Ok(n0 + a.is_ok() as u64);
    bytes(n, "return", &r);
    r
}

// The inner one's tag has room for a third value, which means Ok.
#[inline(never)]
pub fn crowded(n0: u32, a: Result<u32, Result<(), i32>>) -> Result<u32, Result<(), i32>> {
    let n = "types_abi::crowded";
    bytes(n, "0", &n0); bytes(n, "1", &a);
    let r = if n0 > 0 { Ok(n0 + 6) } else { a };
    bytes(n, "return", &r);
    r
}

impl Pair {
    #[inline(never)]
    pub fn total(&self, scale: f64) -> f64 {
        let n = "types_abi::Pair::total";
        bytes(n, "0", &self); bytes(n, "1", &scale);
        let r = (self.a + self.b) as f64 * scale;
        bytes(n, "return", &r);
        r
    }
}

#[no_mangle]
#[inline(never)]
pub extern "C" fn for_c(a: i32, b: f64) -> i32 {
    bytes("for_c", "0", &a); bytes("for_c", "1", &b);
    let r = a + b as i32;
    bytes("for_c", "return", &r);
    r
}

// Through a pointer that the compiler can't see through, functions keep their convention.
#[cfg(not(direct))]
macro_rules! call { ($f:path as $t:ty, $($a:expr),*) => { {
    let mut f: $t = $f;
    let f = unsafe { std::ptr::read_volatile(&mut f) };
    f($($a),*)
} } }
#[cfg(direct)]
macro_rules! call { ($f:path as $t:ty, $($a:expr),*) => { $f($($a),*) } }

fn main() {
    let n = std::env::args().count() as u64;
    let x = 77u32;
    let text = format!("text {}", n);
    let mut sum = call!(numbers as fn(u8, i32, f32, f64, bool, char, usize, u64, u16) -> u64, 1, -2, 1.5, 2.5, true, 'x', 6, 7, 8);
    sum += call!(texts as fn(&str, String, &[u32], &u32) -> usize, &text, text.clone(), &[1, 2, 3], &x) as u64;
    let p = call!(structs as fn(Wrapper, Pair, Mixed, Small, Large, Three, Level) -> Pair,
                  Wrapper(n + 5), Pair { a: n, b: 3 }, Mixed { f: 1.25, n: 9 }, Small { a: 1, b: 2, c: 3, d: n as u16 },
                  Large { a: [n, 1, 2, 3] }, Three { a: n, b: 5, c: 6 }, if n > 3 { Level::Low } else { Level::High });
    let o = call!(options as fn(Option<&u32>, Option<u64>, Option<Box<u32>>, (u64, u64)) -> Mixed,
                  Some(&x), Some(n + 8), Some(Box::new(3)), (n, 9));
    sum += p.a + p.b + o.n + call!(large as fn(u64) -> Large, n).a[0];
    sum += call!(wide as fn(u128, u64) -> u128, n as u128 + (5u128 << 64), 6) as u64;
    sum += call!(Pair::total as fn(&Pair, f64) -> f64, &p, 1.5 + o.f) as u64 + for_c(3, 4.5) as u64;
    sum += call!(unit_or as fn(u32, Result<(), u32>) -> Result<(), u32>, n as u32, Err(n as u32 + 7)).is_ok() as u64;
    sum += call!(mixed as fn(u64, Result<usize, Box<u64>>, Result<u64, i64>) -> Result<u64, &'static u64>, n, Ok(n as usize + 3), Err(-4)).unwrap();
    sum += call!(crowded as fn(u32, Result<u32, Result<(), i32>>) -> Result<u32, Result<(), i32>>, n as u32, Err(Err(-9))).is_ok() as u64;
    std::process::exit((sum == 12345) as i32);
}
