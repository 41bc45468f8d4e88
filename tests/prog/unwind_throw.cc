// SPDX-License-Identifier: MIT
// C++ frames: templates, virtual calls, exceptions on their way. Prints "ready" and goes on until it is killed.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#define noinline __attribute__((noinline))

static volatile unsigned long sink;

struct shape {
	virtual ~shape() {}
	virtual double area(int depth) = 0;
};

struct square : shape {
	std::string name = "a name that is too long to be stored inside";
	noinline double area(int depth) override
	{
		if (depth > 6)
			throw std::runtime_error(name);
		return depth + std::make_unique<square>()->area(depth + 1);
	}
};

static noinline void caught(int i)
{
	try {
		sink = sink + (unsigned long)square().area(i % 6);
	} catch (const std::exception &e) {
		sink = sink + e.what()[3];
	}
}

static noinline void containers()
{
	std::map<std::string, std::vector<int>> m;
	std::ostringstream out;

	for (int i = 0; i < 50; i++)
		m[std::to_string(i * 7919 % 97)].push_back(i);
	for (auto &[k, v] : m) {
		std::sort(v.begin(), v.end(), [](int a, int b) { sink = sink + 1; return a > b; });
		out << k << v.size() << 1.5;
	}
	sink = sink + out.str().size();
}

int main()
{
	std::function<void(int)> f = caught;

	puts("ready");
	fflush(stdout);
	for (int i = 0;; i++) {
		f(i);
		containers();
	}
}
