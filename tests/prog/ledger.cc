/* SPDX-License-Identifier: MIT */
/*
 * A C++ program of the everyday kind, the same in each run: classes with bases and virtual functions, templates,
 * containers, strings, references, bit-fields, exceptions and a thread. Tracers and debuggers are asked
 * about any of its places.
 */
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace ledger {

enum class Kind : std::uint8_t { none, deposit = 3, payment = 9 };
enum Flag { PLAIN, ODD = -7, LARGE = 1 << 20 };

struct Date {
	unsigned day : 5, month : 4;
	int year : 13;
	bool is_known : 1;
};

struct Base {
	virtual ~Base() = default;
	virtual long worth(int rate) const = 0;
	std::string label;
	int serial = 0;
};

struct Named {
	char code[8];
	std::string_view view;
};

struct Entry : Base, Named {
	Entry(std::string name, long amount, Kind kind, int n);
	long worth(int rate) const override;

	long cents;
	Kind kind;
	Flag flag;
	Date date;
	double share[3];
	float weight;
	const Entry *before = nullptr;
	union { std::uint32_t word; float real; unsigned char bytes[4]; } raw;
};

struct Loan : Entry {
	using Entry::Entry;
	long worth(int rate) const override;
	std::vector<short> parts;
};

Entry::Entry(std::string name, long amount, Kind k, int n) : cents(amount), kind(k), flag(n % 2 ? ODD : LARGE)
{
	label = std::move(name);
	serial = n;
	std::snprintf(code, sizeof(code), "c%d", n * 111);
	view = label;
	date = { unsigned(n % 28 + 1), unsigned(n % 12 + 1), 2000 - n, n % 3 == 0 };
	for (int i = 0; i < 3; i++)
		share[i] = n / (i + 1.5);
	weight = n * -0.25f;
	raw.word = 0x40490fdb + n;
}

long Entry::worth(int rate) const
{
	long sum = cents;

	for (double s : share)
		sum += long(s * rate);
	return kind == Kind::payment ? -sum : sum;
}

long Loan::worth(int rate) const
{
	long sum = Entry::worth(rate);

	for (short p : parts)
		sum -= p;
	return sum;
}

template <typename T> struct Stack {
	std::vector<T> items;
	std::size_t most = 0;

	T &push(T &&one)
	{
		items.push_back(std::move(one));
		most = std::max(most, items.size());
		return items.back();
	}
	T pop()
	{
		if (items.empty())
			throw std::out_of_range("nothing there");
		T one = std::move(items.back());
		items.pop_back();
		return one;
	}
};

using Owned = std::unique_ptr<Entry>;

class Book {
public:
	Entry &add(const std::string &name, long amount, Kind kind);
	long total(int rate) const;
	long find(std::string_view key, const Date &when) const;
	void undo(unsigned n);
private:
	Stack<Owned> entries;
	std::map<std::string, int> index;
	long limit = 1000000;
};

__attribute__((noinline)) Entry &Book::add(const std::string &name, long amount, Kind kind)
{
	int n = int(entries.items.size());
	const Entry *last = n ? entries.items.back().get() : nullptr;
	Owned made;

	if (amount > limit)
		throw std::invalid_argument("too much: " + name);
	if (n % 3 == 2) {
		auto loan = std::make_unique<Loan>(name, amount, kind, n);
		loan->parts.assign(n, short(n * 3));
		made = std::move(loan);
	} else {
		made = std::make_unique<Entry>(name, amount, kind, n);
	}
	made->before = last;
	index[name] = n;
	return *entries.push(std::move(made));
}

__attribute__((noinline)) long Book::total(int rate) const
{
	long sum = 0;

	for (const Owned &e : entries.items)
		sum += e->worth(rate);
	return sum;
}

__attribute__((noinline)) long Book::find(std::string_view key, const Date &when) const
{
	auto it = index.find(std::string(key));

	if (it == index.end())
		return -1;
	const Entry *e = entries.items[it->second].get();
	int steps = 0;
	while (e && e->date.month != when.month) {
		e = e->before;
		steps++;
	}
	return e ? e->cents + steps : steps;
}

__attribute__((noinline)) void Book::undo(unsigned n)
{
	while (n--) {
		Owned gone = entries.pop();
		index.erase(gone->label);
	}
}

__attribute__((noinline)) std::string summary(const Book &book, int rate, std::string &&before)
{
	std::string text = before + std::to_string(book.total(rate));

	std::reverse(text.begin(), text.end());
	return text;
}

} // namespace ledger

int main()
{
	ledger::Book book;
	std::string all;

	for (int i = 0; i < 12; i++) {
		try {
			auto &e = book.add("entry number " + std::to_string(i * i), i == 7 ? 1 << 30 : i * 1234 - 5000,
					   i & 1 ? ledger::Kind::payment : ledger::Kind::deposit);
			std::printf("%s %ld\n", e.label.c_str(), e.worth(i));
		} catch (const std::invalid_argument &e) {
			std::printf("%s\n", e.what());
		}
		all = ledger::summary(book, i, std::move(all)).substr(0, 40);
	}
	std::thread other([&] { std::printf("%ld\n", book.find("entry number 81", { 1, 2, 3, true })); });
	other.join();
	std::printf("%ld %ld %s\n", book.find("nothing", { 1, 2, 3, false }), book.find("entry number 121", { 1, 4, 9, true }), all.c_str());
	try {
		book.undo(50);
	} catch (const std::out_of_range &e) {
		std::printf("%s\n", e.what());
	}
	return 0;
}
