// SPDX-License-Identifier: MIT
// A method whose first parameter is not used: the optimiser drops it, and the others move up by one register.
pub struct Shop {
    _open: u64,
}

impl Shop {
    #[inline(never)]
    pub fn three(&self, n: u32) -> (u64, u64, u64) {
        (n as u64, n as u64 + 1, n as u64 + 2)
    }
}

fn main() {
    let shop = std::hint::black_box(Shop { _open: 1 });
    for n in 0..4 {
        std::hint::black_box(shop.three(std::hint::black_box(n * 10)));
    }
}
