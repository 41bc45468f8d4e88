// SPDX-License-Identifier: MIT
// Enums with data. show() is called with each of them; the program prints them as Rust does.
#[derive(Debug, Clone, Copy)]
#[allow(dead_code)]
pub enum Shape {
    Nothing,
    Circle(i32),
    Pair(u8, i64),
    Sized { w: i16, h: u32 },
}

#[derive(Debug, Clone, Copy)]
pub struct Holder {
    pub n: u32,
    pub shape: Shape,
    pub maybe: Option<u16>,
    pub place: Option<&'static u64>,
    pub some: Result<i8, u32>,
    pub name: Option<&'static str>,
}

static NUMBER: u64 = 77;

#[inline(never)]
pub fn show(h: &Holder) -> u32 {
    std::hint::black_box(h).n
}

fn main() {
    let shapes = [Shape::Nothing, Shape::Circle(-5), Shape::Pair(200, -1 << 40), Shape::Sized { w: -3, h: 4000000000 }];
    let mut sum = 0;
    for (i, s) in shapes.iter().enumerate() {
        let h = Holder {
            n: i as u32,
            shape: *s,
            maybe: if i % 2 == 0 { None } else { Some(500 + i as u16) },
            place: if i < 2 { None } else { Some(&NUMBER) },
            some: if i == 3 { Err(9) } else { Ok(-7) },
            name: if i == 2 { Some("two") } else { None },
        };
        println!("{}|{:?}|{:?}|{:?}|{}", i, h.shape, h.maybe, h.some, h.place.is_some());
        sum += show(&h);
    }
    println!("{}", sum);
}
