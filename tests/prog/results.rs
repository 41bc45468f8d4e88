// SPDX-License-Identifier: MIT
// Results that are too large for registers. The program prints what it got: function|part|...
pub struct Numbers { pub a: u64, pub b: i64, pub c: u8 }

pub struct Db { pub n: u64, pub keys: Vec<u64> }

impl Db {
    // The last thing that it does leaves a number in rax.
    #[inline(never)]
    pub fn insert(&mut self, key: u64) -> Numbers {
        self.n += 1;
        Numbers { a: key, b: -5, c: self.n as u8 }
    }

    #[inline(never)]
    pub fn find(&self, key: u64) -> Result<String, Vec<u64>> {
        if self.n > 1 { Ok(format!("found {}", key)) } else { Err(vec![key; 3]) }
    }
}

#[inline(never)]
pub fn array(first: u64) -> [u64; 4] {
    [first, 2, 3, 4]
}

fn main() {
    let mut db = Db { n: 0, keys: vec![] };
    for key in [40, 50] {
        let it = db.insert(key);
        println!("Db::insert|{}|{}|{}", it.a, it.b, it.c);
        match db.find(key) {
            Ok(text) => println!("Db::find|Ok|0|{}", text),
            Err(list) => println!("Db::find|Err|{}|", list.len()),
        }
        let four = array(key);
        println!("array|{}|{}|{}|{}", four[0], four[1], four[2], four[3]);
        db.keys.push(key);
    }
}
