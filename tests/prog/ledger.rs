// SPDX-License-Identifier: MIT
// A Rust program of the everyday kind, the same in each run: a reader of nested lists of numbers and words, traits,
// enums that hold data, containers, slices, closures and a thread. Tracers and debuggers are asked about any of its places.
use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
enum Mark { Open = 1, Close = 2, Word = 9 }

#[derive(Clone, Debug)]
struct Token<'a> {
    mark: Mark,
    text: &'a str,
    line: u32,
    column: i16,
    is_last: bool,
}

#[derive(Debug)]
enum Tree {
    Number(f64),
    Word(String),
    List(Vec<Tree>),
}

struct Limits {
    depth: usize,
    range: (i32, u8),
    names: [&'static str; 2],
    scale: f32,
}

static LIMITS: Limits = Limits { depth: 6, range: (-40, 200), names: ["low", "high"], scale: 0.75 };
static mut SEEN: u64 = 3;

#[derive(Debug)]
enum Wrong { TooDeep(usize), Ended { at: u32 } }

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Wrong::TooDeep(n) => write!(f, "{} levels", n),
            Wrong::Ended { at } => write!(f, "ends at {}", at),
        }
    }
}

trait Weight {
    fn weight(&self, unit: i64) -> i64;
}

impl Weight for Tree {
    #[inline(never)]
    fn weight(&self, unit: i64) -> i64 {
        match self {
            Tree::Number(x) => (*x * unit as f64) as i64,
            Tree::Word(w) => w.len() as i64,
            Tree::List(all) => all.iter().map(|t| t.weight(unit + 1)).sum::<i64>() - 1,
        }
    }
}

#[inline(never)]
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut start = 0;
        for (i, c) in line.char_indices().chain(std::iter::once((line.len(), ' '))) {
            let at = (number as u32 + 1, i as i16);
            if c == '(' || c == ')' || c == ' ' {
                if i > start {
                    add(&mut found, Mark::Word, &line[start..i], at);
                }
                if c != ' ' {
                    add(&mut found, if c == '(' { Mark::Open } else { Mark::Close }, &line[i..i + 1], at);
                }
                start = i + 1;
            }
        }
    }
    if let Some(last) = found.last_mut() {
        last.is_last = last.column < 1;
    }
    found
}

#[inline(never)]
fn add<'a>(to: &mut Vec<Token<'a>>, mark: Mark, text: &'a str, at: (u32, i16)) {
    unsafe { SEEN += text.len() as u64 }
    to.push(Token { mark, text, line: at.0, column: -at.1, is_last: false });
}

struct Reader<'a> {
    tokens: &'a [Token<'a>],
    next: usize,
    words: BTreeMap<String, u16>,
}

impl<'a> Reader<'a> {
    #[inline(never)]
    fn list(&mut self, depth: usize) -> Result<Tree, Wrong> {
        let mut all = Vec::new();
        if depth > LIMITS.depth {
            return Err(Wrong::TooDeep(depth));
        }
        loop {
            let token = match self.tokens.get(self.next) {
                Some(t) => t,
                None if depth == 0 => return Ok(Tree::List(all)),
                None => return Err(Wrong::Ended { at: self.tokens.last().map_or(0, |t| t.line) }),
            };
            self.next += 1;
            match token.mark {
                Mark::Open => all.push(self.list(depth + 1)?),
                Mark::Close => return Ok(Tree::List(all)),
                Mark::Word => all.push(self.word(token)),
            }
        }
    }

    #[inline(never)]
    fn word(&mut self, token: &Token) -> Tree {
        match token.text.parse::<f64>() {
            Ok(x) => Tree::Number(clamp(x, &LIMITS)),
            Err(_) => {
                *self.words.entry(token.text.to_string()).or_insert(0) += 1;
                Tree::Word(token.text.to_uppercase())
            }
        }
    }
}

#[inline(never)]
fn clamp(x: f64, limits: &Limits) -> f64 {
    let scaled = x * limits.scale as f64;
    scaled.max(limits.range.0 as f64).min(limits.range.1 as f64)
}

#[inline(never)]
fn read(text: String) -> Result<(Tree, usize), Wrong> {
    let list = tokens(&text);
    let mut reader = Reader { tokens: &list, next: 0, words: BTreeMap::new() };
    let tree = reader.list(0)?;
    let words = reader.words.len();
    Ok((tree, words))
}

fn main() {
    let texts = ["(plus 1 2.5 (times -300 grüße))\n(a b a)", "1 (2 (3 (4 (5 (6 (7 (8))))))))", "(open\n(still", "", "x\ny 1e3"];
    for (i, t) in texts.iter().enumerate() {
        match read(t.repeat(i % 2 + 1)) {
            Ok((tree, words)) => println!("{} {} {:?}", words, tree.weight(i as i64 - 1), tree),
            Err(e) => println!("{}: {} {}", i, e, LIMITS.names[i & 1]),
        }
    }
    let other = std::thread::spawn(|| read("(7 seven)".to_string()).map(|r| r.0.weight(2)).unwrap_or(0));
    println!("{} {}", other.join().unwrap(), unsafe { SEEN });
}
