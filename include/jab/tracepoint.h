/* SPDX-License-Identifier: MIT */
/*
 * Static tracepoints for C11 and C++17: gcc and clang, x86-64 and aarch64. There is nothing to link:
 *
 *	JAB_TRACEPOINT(shop, sold, ("id", id), ("price", price), ("buyer", name));
 *
 * While nobody traces it, this is one nop. Two notes in the ELF file describe it: one of owner "stapsdt", which
 * bpftrace, perf, gdb and SystemTap read too, and one of owner "jab" with the names and types of the fields.
 * jab-tracepoint(3) is the manual, docs/tracepoint-notes.md of jab's sources describes the notes.
 *
 * Everything that begins with JAB_TP_ or jab_tp_ is internal.
 */
#ifndef JAB_TRACEPOINT_H
#define JAB_TRACEPOINT_H

#ifdef JAB_TRACEPOINT_NONE

#define JAB_TRACEPOINT(...) do { } while (0)
#define JAB_TRACEPOINT_ENABLED(provider, name) 0
#define JAB_TRACEPOINT_ENUM(...) struct jab_tp_none
#define JAB_TRACEPOINT_STRUCT(...) struct jab_tp_none

#else

#if !defined __GNUC__ || !defined __LP64__ || !(defined __x86_64__ || defined __aarch64__)
#error "jab/tracepoint.h: only gcc and clang for x86-64 and aarch64; JAB_TRACEPOINT_NONE leaves the tracepoints out"
#endif

#ifdef __cplusplus
#if __cplusplus < 201703L
#error "jab/tracepoint.h: C++17 or newer is needed"
#endif
#include <type_traits>
#define JAB_TP_ASSERT(x, text) static_assert(x, "JAB_TRACEPOINT: " text)
#else
#define JAB_TP_ASSERT(x, text) _Static_assert(x, "JAB_TRACEPOINT: " text)
#endif

/*
 * 1. Macros over lists. JAB_TP_EACH_n(m, x, a, b, ...) is m(x, 1, a) m(x, 2, b) ...
 */
#define JAB_TP_CAT(a, b) JAB_TP_CAT_(a, b)
#define JAB_TP_CAT_(a, b) a##b
#define JAB_TP_TEXT(x) JAB_TP_TEXT_(x)
#define JAB_TP_TEXT_(x) #x
#define JAB_TP_CALL(m, args) m args
#define JAB_TP_STRIP(...) __VA_ARGS__

/* How many fields come after provider and name. */
#define JAB_TP_COUNT(...) JAB_TP_COUNT_(__VA_ARGS__, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, \
	12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, FEW, FEW)
#define JAB_TP_COUNT_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, count, ...) count

#define JAB_TP_EACH_0(m, x, ...)
#define JAB_TP_EACH_1(m, x, a) m(x, 1, a)
#define JAB_TP_EACH_2(m, x, a, b) JAB_TP_EACH_1(m, x, a) m(x, 2, b)
#define JAB_TP_EACH_3(m, x, a, b, c) JAB_TP_EACH_2(m, x, a, b) m(x, 3, c)
#define JAB_TP_EACH_4(m, x, a, b, c, d) JAB_TP_EACH_3(m, x, a, b, c) m(x, 4, d)
#define JAB_TP_EACH_5(m, x, a, b, c, d, e) JAB_TP_EACH_4(m, x, a, b, c, d) m(x, 5, e)
#define JAB_TP_EACH_6(m, x, a, b, c, d, e, f) JAB_TP_EACH_5(m, x, a, b, c, d, e) m(x, 6, f)
#define JAB_TP_EACH_7(m, x, a, b, c, d, e, f, g) JAB_TP_EACH_6(m, x, a, b, c, d, e, f) m(x, 7, g)
#define JAB_TP_EACH_8(m, x, a, b, c, d, e, f, g, h) JAB_TP_EACH_7(m, x, a, b, c, d, e, f, g) m(x, 8, h)
#define JAB_TP_EACH_9(m, x, a, b, c, d, e, f, g, h, i) JAB_TP_EACH_8(m, x, a, b, c, d, e, f, g, h) m(x, 9, i)
#define JAB_TP_EACH_10(m, x, a, b, c, d, e, f, g, h, i, j) JAB_TP_EACH_9(m, x, a, b, c, d, e, f, g, h, i) m(x, 10, j)
#define JAB_TP_EACH_11(m, x, a, b, c, d, e, f, g, h, i, j, k) JAB_TP_EACH_10(m, x, a, b, c, d, e, f, g, h, i, j) m(x, 11, k)
#define JAB_TP_EACH_12(m, x, a, b, c, d, e, f, g, h, i, j, k, l) JAB_TP_EACH_11(m, x, a, b, c, d, e, f, g, h, i, j, k) m(x, 12, l)

/*
 * 2. A field is (name, expression), (name, pointer, count), or (name, expression, tag) with JAB_ENUM() or JAB_STRUCT() as
 * the tag: P, C, E and S. JAB_TP_FIELD(m, x, i, field) is m_P, m_C, m_E or m_S with (x, i, what the field has).
 */
#define JAB_ENUM(type) ~, E, type
#define JAB_STRUCT(type) ~, S, type
#define JAB_TP_FIELD_IN_PARENTHESES(...) JAB_TP_FIELD_FORM(__VA_ARGS__, BAD, TAG, BAD, C, P, BAD, ~)
#define JAB_TP_FIELD_FORM(a, b, c, d, e, f, form, ...) form
#define JAB_TP_FIELD(m, x, i, field) JAB_TP_CALL(JAB_TP_CAT(m##_, JAB_TP_FIELD_IN_PARENTHESES field), (x, i, JAB_TP_STRIP field))

/*
 * 3. The code of a type: byte 0 is the argument of the stapsdt note (size, 16: signed), byte 1 the kind, byte 2 the size
 * of the value or element, byte 3 the shape (1: fixed array, 2: counted array, 128: signed), bytes 4 to 7 the length
 * of a fixed array or the number of an enum or struct. 0: not supported.
 */
#define JAB_TP_CODE_OF(kind, size, sign) ((size) | ((sign) ? 0x80000010ull : 0) | (kind) << 8 | (size) * 65536ull)
#define JAB_TP_INT(size, sign) JAB_TP_CODE_OF(1, size, sign)
#define JAB_TP_BOOL JAB_TP_CODE_OF(2, 1, 0)
#define JAB_TP_FLOAT(size) JAB_TP_CODE_OF(3, size, 0)
#define JAB_TP_POINTER JAB_TP_CODE_OF(4, 8, 0)
#define JAB_TP_STRING JAB_TP_CODE_OF(5, 8, 0)
#define JAB_TP_CHARS JAB_TP_CODE_OF(6, 1, 0)
#define JAB_TP_ENUMERATED(code, id) (((code) & ~0xff00ull) | 7 << 8 | (unsigned long long)(id) << 32)
#define JAB_TP_STRUCTURE(id) (JAB_TP_CODE_OF(8, 8, 0) | (unsigned long long)(id) << 32)
#define JAB_TP_LENGTH(code) (((code) & ~0xff00ull) | 9 << 8)
/* An array's argument is the address of its first element. */
#define JAB_TP_ELEMENTS(code, shape, count) \
	((code) ? ((code) & ~0xffull) | 8 | (shape) << 24 | (unsigned long long)(count) << 32 : 0)
#define JAB_TP_IS_INT(code) (((code) >> 8 & 0xff) == 1)
#define JAB_TP_POINTS(code) (((code) >> 8 & 0xff) == 5 || ((code) >> 24 & 3))

#ifdef __cplusplus

namespace jab_tp {

template<class T> constexpr unsigned long long scalar()
{
	if constexpr (std::is_same_v<T, bool>)
		return JAB_TP_BOOL;
	else if constexpr (std::is_enum_v<T>)
		return JAB_TP_INT(sizeof(T), std::is_signed_v<std::underlying_type_t<T>>);
	else if constexpr (std::is_integral_v<T>)
		return sizeof(T) <= 8 ? JAB_TP_INT(sizeof(T), std::is_signed_v<T>) : 0;
	else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
		return JAB_TP_FLOAT(sizeof(T));
	else if constexpr (std::is_same_v<T, char *> || std::is_same_v<T, const char *>)
		return JAB_TP_STRING;
	else if constexpr (std::is_pointer_v<T>)
		return JAB_TP_POINTER;
	else
		return 0;
}

/* Of an element of an array: no pointers. */
template<class T> constexpr unsigned long long element()
{
	if constexpr (std::is_same_v<T, char>)
		return JAB_TP_CHARS;
	else if constexpr (std::is_same_v<T, void>)
		return JAB_TP_INT(1, 0);
	else if constexpr (std::is_pointer_v<T>)
		return 0;
	else
		return scalar<T>();
}

template<class T> constexpr unsigned long long plain()
{
	using V = std::remove_reference_t<T>;
	if constexpr (std::is_array_v<V>)
		return JAB_TP_ELEMENTS(element<std::remove_cv_t<std::remove_extent_t<V>>>(), 1ull, std::extent_v<V>);
	else
		return scalar<std::remove_cv_t<V>>();
}

template<class T> constexpr unsigned long long counted()
{
	using V = std::decay_t<T>;
	return JAB_TP_ELEMENTS(element<std::remove_cv_t<std::remove_pointer_t<V>>>(), 2ull, 0);
}

#ifdef __clang__
typedef char memory[1 << 16];
#else
typedef char memory[];
#endif

template<unsigned long long V> struct constant { static constexpr unsigned long long value = V; };

/* The compiler finishes what it has to store where p points to. */
__attribute__((always_inline)) inline void finish(const volatile void *p)
{
	__asm__ __volatile__("" : : "m"(*static_cast<const volatile memory *>(p)));
}
template<class T> __attribute__((always_inline)) inline void finish_value(const T &x)
{
	if constexpr (JAB_TP_POINTS(plain<T>()))
		finish(x);
}

/* The values of an enum, as numbers. */
template<class... T> struct values { long long v[sizeof...(T)]; };
template<class... T> constexpr values<T...> values_of(T... v) { return { { static_cast<long long>(v)... } }; }

}

#define JAB_TP_CODE(e) (::jab_tp::constant<::jab_tp::plain<decltype((e))>()>::value)
#define JAB_TP_COUNTED(e) (::jab_tp::constant<::jab_tp::counted<decltype((e))>()>::value)
#define JAB_TP_SAME(e, type) (std::is_same_v<std::remove_cv_t<std::remove_reference_t<decltype((e))>>, type>)
#define JAB_TP_FINISH_VALUE(e) ::jab_tp::finish_value(e);
#define JAB_TP_FINISH(p) ::jab_tp::finish(p);

#else

#define JAB_TP_SCALAR(e) _Generic((e), _Bool: JAB_TP_BOOL, char: JAB_TP_INT(1, (char)-1 < 0), signed char: JAB_TP_INT(1, 1), \
	unsigned char: JAB_TP_INT(1, 0), short: JAB_TP_INT(2, 1), unsigned short: JAB_TP_INT(2, 0), int: JAB_TP_INT(4, 1), \
	unsigned: JAB_TP_INT(4, 0), long: JAB_TP_INT(8, 1), unsigned long: JAB_TP_INT(8, 0), long long: JAB_TP_INT(8, 1), \
	unsigned long long: JAB_TP_INT(8, 0), float: JAB_TP_FLOAT(4), double: JAB_TP_FLOAT(8), \
	char *: JAB_TP_STRING, const char *: JAB_TP_STRING, \
	default: __builtin_classify_type(e) == 5 ? JAB_TP_POINTER : 0)
#define JAB_TP_TO(type, code) type *: code, const type *: code
#define JAB_TP_ELEMENT(p) _Generic((p), JAB_TP_TO(_Bool, JAB_TP_BOOL), JAB_TP_TO(char, JAB_TP_CHARS), \
	JAB_TP_TO(signed char, JAB_TP_INT(1, 1)), JAB_TP_TO(unsigned char, JAB_TP_INT(1, 0)), JAB_TP_TO(void, JAB_TP_INT(1, 0)), \
	JAB_TP_TO(short, JAB_TP_INT(2, 1)), JAB_TP_TO(unsigned short, JAB_TP_INT(2, 0)), \
	JAB_TP_TO(int, JAB_TP_INT(4, 1)), JAB_TP_TO(unsigned, JAB_TP_INT(4, 0)), \
	JAB_TP_TO(long, JAB_TP_INT(8, 1)), JAB_TP_TO(unsigned long, JAB_TP_INT(8, 0)), \
	JAB_TP_TO(long long, JAB_TP_INT(8, 1)), JAB_TP_TO(unsigned long long, JAB_TP_INT(8, 0)), \
	JAB_TP_TO(float, JAB_TP_FLOAT(4)), JAB_TP_TO(double, JAB_TP_FLOAT(8)), default: 0ull)
/* An array becomes a pointer as the right side of a comma. */
#define JAB_TP_IS_ARRAY(e) (!__builtin_types_compatible_p(__typeof__(e), __typeof__(((void)0, (e)))))
#define JAB_TP_ARRAY(e, code) \
	JAB_TP_ELEMENTS(code, 1ull, sizeof(e) / (((code) >> 16 & 0xff) + !(code)))
#define JAB_TP_CODE(e) (JAB_TP_IS_ARRAY(e) ? JAB_TP_ARRAY(e, JAB_TP_ELEMENT(e)) : JAB_TP_SCALAR(e))
#define JAB_TP_COUNTED(e) JAB_TP_ELEMENTS(JAB_TP_ELEMENT(e), 2ull, 0)
#define JAB_TP_SAME(e, type) __builtin_types_compatible_p(__typeof__(e), type)

/* The compiler finishes what it has to store where p points to. */
#ifdef __clang__
typedef const char jab_tp_memory[1 << 16];
#else
typedef const char jab_tp_memory[];
#endif
#define JAB_TP_FINISH(p) __asm__ __volatile__("" : : "m"(*(jab_tp_memory *)(p)));
#define JAB_TP_FINISH_VALUE(e) \
	if (JAB_TP_POINTS(JAB_TP_CODE(e))) \
		JAB_TP_FINISH(__builtin_choose_expr(JAB_TP_POINTS(JAB_TP_CODE(e)), (e), (void *)0))

#endif

/*
 * 4. What the compiler must refuse: calls and side effects, as the expressions are evaluated also when nobody traces. gcc takes a
 * product with 0 for a constant if nothing is lost without it; clang has a warning for the argument of its assumption.
 */
#if defined __clang__
#define JAB_TP_NO_CALL_NO_SIDE_EFFECT(name, e) \
	_Pragma("clang diagnostic push") _Pragma("clang diagnostic error \"-Wassume\"") \
	(void)sizeof(__extension__({ __builtin_assume(((void)(e), 1)); 0; })); \
	_Pragma("clang diagnostic pop")
#elif defined __cplusplus
#define JAB_TP_NO_CALL_NO_SIDE_EFFECT(name, e) \
	JAB_TP_ASSERT(__builtin_constant_p(((void)(e), 1)), "field '" name "' calls, changes something or reads a volatile; " \
		"take its value before, if need be under JAB_TRACEPOINT_ENABLED()");
#else
#define JAB_TP_NO_CALL_NO_SIDE_EFFECT(name, e) \
	JAB_TP_ASSERT(__builtin_constant_p(0 * ((e) != 0)), "field '" name "' calls, changes something or reads a volatile; " \
		"take its value before, if need be under JAB_TRACEPOINT_ENABLED()");
#endif

#define JAB_TP_CHECK(x, i, field) JAB_TP_FIELD(JAB_TP_CHECK, x, i, field)
#define JAB_TP_CHECK_P(x, i, name, e) \
	JAB_TP_ASSERT(JAB_TP_CODE(e), "the type of field '" name "' is not supported; a struct needs a third item, JAB_STRUCT(TYPE)"); \
	JAB_TP_NO_CALL_NO_SIDE_EFFECT(name, e)
#define JAB_TP_CHECK_C(x, i, name, p, n) \
	JAB_TP_ASSERT(JAB_TP_COUNTED(p), "field '" name "' has a count and must point to numbers, chars or bools"); \
	JAB_TP_ASSERT(JAB_TP_IS_INT(JAB_TP_CODE(n)), "the count of field '" name "' must be an integer"); \
	JAB_TP_NO_CALL_NO_SIDE_EFFECT(name, p) JAB_TP_NO_CALL_NO_SIDE_EFFECT(name, n)
#define JAB_TP_CHECK_E(x, i, name, e, type) \
	JAB_TP_ASSERT(JAB_TP_IS_INT(JAB_TP_CODE(e)), "field '" name "' is no enum or integer"); \
	JAB_TP_NO_CALL_NO_SIDE_EFFECT(name, e)
#define JAB_TP_CHECK_S(x, i, name, e, type) \
	JAB_TP_ASSERT(JAB_TP_SAME(e, jab_tp_struct_type_##type), "field '" name "' is not of the struct declared as " #type); \
	JAB_TP_NO_CALL_NO_SIDE_EFFECT(name, &(e))
#define JAB_TP_CHECK_TAG(x, i, name, e, no, tag, type) JAB_TP_CHECK_##tag(x, i, name, e, type)
#define JAB_TP_CHECK_BAD(...) \
	JAB_TP_ASSERT(0, "a field is (\"name\", expression), (\"name\", pointer, count) or (\"name\", expression, JAB_ENUM(TYPE))");

/*
 * 5. Memory that fields point to has to be complete at the tracepoint.
 */
#ifdef __OPTIMIZE__
#define JAB_TP_STORED(x, i, field) JAB_TP_FIELD(JAB_TP_STORED, x, i, field)
#else
#define JAB_TP_STORED(x, i, field)
#endif
#define JAB_TP_STORED_P(x, i, name, e) JAB_TP_FINISH_VALUE(e)
#define JAB_TP_STORED_C(x, i, name, p, n) JAB_TP_FINISH(p)
#define JAB_TP_STORED_E(x, i, name, e, type)
#define JAB_TP_STORED_S(x, i, name, e, type) JAB_TP_FINISH(&(e))
#define JAB_TP_STORED_TAG(x, i, name, e, no, tag, type) JAB_TP_STORED_##tag(x, i, name, e, type)
#define JAB_TP_STORED_BAD(...)

/*
 * 6. Operands: a the value, t its code; of a count b and u. Values are taken from registers, or are constants, so
 * that no tracer needs symbols to find them, and because clang would copy them to the stack. Without optimisation gcc
 * takes them from where they are. A float stands in a general register as well: gdb 13 and bpftrace 0.17 read no others.
 */
#ifndef JAB_TRACEPOINT_ARG
#if defined __OPTIMIZE__ || defined __clang__
#define JAB_TRACEPOINT_ARG "nr"
#else
#define JAB_TRACEPOINT_ARG "nor"
#endif
#endif

#define JAB_TP_OPERAND(x, i, field) JAB_TP_FIELD(JAB_TP_OPERAND, x, i, field)
#define JAB_TP_OPERAND_P(x, i, name, e) , [a##i] JAB_TRACEPOINT_ARG(e), [t##i] "n"(JAB_TP_CODE(e))
#define JAB_TP_OPERAND_C(x, i, name, p, n) , [a##i] JAB_TRACEPOINT_ARG(p), [t##i] "n"(JAB_TP_COUNTED(p)), \
	[b##i] JAB_TRACEPOINT_ARG(n), [u##i] "n"(JAB_TP_LENGTH(JAB_TP_CODE(n)))
#define JAB_TP_OPERAND_E(x, i, name, e, type) \
	, [a##i] JAB_TRACEPOINT_ARG(e), [t##i] "n"(JAB_TP_ENUMERATED(JAB_TP_CODE(e), jab_tp_enum_id_##type))
#define JAB_TP_OPERAND_S(x, i, name, e, type) \
	, [a##i] JAB_TRACEPOINT_ARG(&(e)), [t##i] "n"(JAB_TP_STRUCTURE(jab_tp_struct_id_##type))
#define JAB_TP_OPERAND_TAG(x, i, name, e, no, tag, type) JAB_TP_OPERAND_##tag(x, i, name, e, type)
#define JAB_TP_OPERAND_BAD(...)

/* How many arguments the stapsdt note has. */
#define JAB_TP_ARGS(x, i, field) JAB_TP_FIELD(JAB_TP_ARGS, x, i, field)
#define JAB_TP_ARGS_P(...) + 1
#define JAB_TP_ARGS_C(...) + 2
#define JAB_TP_ARGS_TAG(...) + 1
#define JAB_TP_ARGS_BAD(...)

/*
 * 7. What is written to the notes. The stapsdt note says where an argument is: "-4@%eax".
 */
#define JAB_TP_WHERE(x, i, field) JAB_TP_FIELD(JAB_TP_WHERE, x, i, field)
#define JAB_TP_WHERE_P(x, i, name, e) JAB_TP_WHERE_OF(#i, "a" #i, "t" #i)
#define JAB_TP_WHERE_C(x, i, name, p, n) JAB_TP_WHERE_OF(#i, "a" #i, "t" #i) JAB_TP_WHERE_OF("2", "b" #i, "u" #i)
#define JAB_TP_WHERE_TAG(x, i, name, e, ...) JAB_TP_WHERE_P(x, i, name, e)
#define JAB_TP_WHERE_BAD(...)
#define JAB_TP_WHERE_OF(i, value, code) \
	".fill (" i " > 1) & 1, 1, 0x20\n\t" ".fill " JAB_TP_NUMBER(code) " >> 4 & 1, 1, 0x2d\n\t" \
	".byte 0x30 + (" JAB_TP_NUMBER(code) " & 15)\n\t" ".ascii \"@" JAB_TP_VALUE "[" value "]\"\n\t"
/* The names of all of a register are the ones that every reader knows (not so %r8b); the size says how much of it is meant. */
#ifdef __x86_64__
#define JAB_TP_VALUE "%q"
#else
#define JAB_TP_VALUE "%"
#endif
/* %n is the negative, and the only way to print a number of 64 bits. */
#define JAB_TP_NUMBER(operand) "(0 - %n[" operand "])"

/* Ours: code, name of the field, name of the enum or struct. */
#define JAB_TP_WHAT(x, i, field) JAB_TP_FIELD(JAB_TP_WHAT, x, i, field)
#define JAB_TP_WHAT_P(x, i, name, e) JAB_TP_WHAT_OF("t" #i, name, "")
#define JAB_TP_WHAT_C(x, i, name, p, n) JAB_TP_WHAT_OF("t" #i, name, "") JAB_TP_WHAT_OF("u" #i, "", "")
#define JAB_TP_WHAT_TAG(x, i, name, e, no, tag, type) JAB_TP_WHAT_OF("t" #i, name, #type)
#define JAB_TP_WHAT_BAD(...)
#define JAB_TP_WHAT_OF(code, name, type) ".8byte " JAB_TP_NUMBER(code) "\n\t.asciz \"" name "\", \"" type "\"\n\t"

/* Local symbols let the assembler refuse a name that comes twice, and a tracepoint with other fields than before in the file. */
#define JAB_TP_ONCE(x, i, field) JAB_TP_FIELD(JAB_TP_ONCE, x, i, field)
#define JAB_TP_ONCE_P(x, i, name, e) \
	".ifdef .Ljab%=." name "\n\t.error \"JAB_TRACEPOINT: two fields are named '" name "'\"\n\t.endif\n\t.set .Ljab%=." name ", 1\n\t"
#define JAB_TP_ONCE_C(x, i, name, p, n) JAB_TP_ONCE_P(x, i, name, p)
#define JAB_TP_ONCE_TAG(x, i, name, e, ...) JAB_TP_ONCE_P(x, i, name, e)
#define JAB_TP_ONCE_BAD(...)
#define JAB_TP_SUM(x, i, field) JAB_TP_FIELD(JAB_TP_SUM, x, i, field)
#define JAB_TP_SUM_P(x, i, name, e) " + %n[t" #i "] * (" #i " + " #i " + 1)"
#define JAB_TP_SUM_C(x, i, name, p, n) JAB_TP_SUM_P(x, i, name, p)
#define JAB_TP_SUM_TAG(x, i, name, e, ...) JAB_TP_SUM_P(x, i, name, e)
#define JAB_TP_SUM_BAD(...)
#define JAB_TP_KNOWN(x, i, field) JAB_TP_FIELD(JAB_TP_KNOWN, x, i, field)
#define JAB_TP_KNOWN_P(x, i, name, e) ".set .Ljab." x "." #i "." name ", 1\n\t"
#define JAB_TP_KNOWN_C(x, i, name, p, n) JAB_TP_KNOWN_P(x, i, name, p)
#define JAB_TP_KNOWN_TAG(x, i, name, e, ...) JAB_TP_KNOWN_P(x, i, name, e)
#define JAB_TP_KNOWN_BAD(...)
#define JAB_TP_OTHER(x, i, field) JAB_TP_FIELD(JAB_TP_OTHER, x, i, field)
#define JAB_TP_OTHER_P(x, i, name, e) ".ifndef .Ljab." x "." #i "." name "\n\t" JAB_TP_DIFFERS(x) ".endif\n\t"
#define JAB_TP_OTHER_C(x, i, name, p, n) JAB_TP_OTHER_P(x, i, name, p)
#define JAB_TP_OTHER_TAG(x, i, name, e, ...) JAB_TP_OTHER_P(x, i, name, e)
#define JAB_TP_OTHER_BAD(...)
#define JAB_TP_DIFFERS(x) ".error \"JAB_TRACEPOINT: '" x "' has other fields at another place of this file\"\n\t"
#define JAB_TP_ALIKE(x, each, ...) \
	".ifndef .Ljab." x "\n\t" ".set .Ljab." x ", 1" each(JAB_TP_SUM, x, __VA_ARGS__) "\n\t" each(JAB_TP_KNOWN, x, __VA_ARGS__) \
	".else\n\t" ".if .Ljab." x " - (1" each(JAB_TP_SUM, x, __VA_ARGS__) ")\n\t" JAB_TP_DIFFERS(x) ".endif\n\t" \
	each(JAB_TP_OTHER, x, __VA_ARGS__) ".endif\n\t"

/*
 * 8. The site. The nop of x86-64 has five bytes: a jump fits in.
 */
#ifdef __x86_64__
#define JAB_TP_NOP ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n\t" \
	"{|.error \"JAB_TRACEPOINT: not with -masm=intel\"\n\t}"
#else
#define JAB_TP_NOP "nop\n\t"
#endif

/* "?" keeps notes of an inline function with it, in its COMDAT group. */
#define JAB_TP_NOTE(section, owner, type, desc) \
	".pushsection " section ", \"?\", \"note\"\n\t" ".balign 4\n\t" ".4byte 982f - 981f, 984f - 983f, " type "\n" \
	"981:\t.asciz \"" owner "\"\n" "982:\t.balign 4\n" "983:\t" desc "984:\t.balign 4\n\t" ".popsection\n\t"

/* Prelink moved addresses in notes by where this symbol has gone to; readers still expect it. */
#define JAB_TP_BASE \
	".ifndef _.stapsdt.base\n\t" \
	".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n\t" \
	".weak _.stapsdt.base\n\t" ".hidden _.stapsdt.base\n" "_.stapsdt.base:\t.space 1\n\t" ".size _.stapsdt.base, 1\n\t" \
	".popsection\n\t" ".endif\n\t"

/* The semaphore is defined where it is asked for, else its address is 0. */
#define JAB_TP_SEMAPHORE(x) "jab.enabled." x

#define JAB_TP_STAPSDT(x, provider, name, where) \
	JAB_TP_NOTE(".note.stapsdt", "stapsdt", "3", \
		".8byte 980b, _.stapsdt.base, " JAB_TP_SEMAPHORE(x) "\n\t" \
		".asciz \"" provider "\", \"" name "\"\n\t" where ".byte 0\n")

#if defined __clang__ || __GNUC__ < 9
#define JAB_TP_INLINE
#else
#define JAB_TP_INLINE __inline__
#endif

#define JAB_TP_SITE(provider, name, each, ...) do { \
	each(JAB_TP_CHECK, ~, __VA_ARGS__) \
	JAB_TP_ASSERT(0 each(JAB_TP_ARGS, ~, __VA_ARGS__) <= 12, "at most 12 fields, a count is one more; put them into a struct, JAB_STRUCT()"); \
	each(JAB_TP_STORED, ~, __VA_ARGS__) \
	_Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Woverlength-strings\"") \
	__asm__ JAB_TP_INLINE __volatile__( \
		"980:\t" JAB_TP_NOP \
		each(JAB_TP_ONCE, ~, __VA_ARGS__) \
		JAB_TP_ALIKE(provider "." name, each, __VA_ARGS__) \
		".weak " JAB_TP_SEMAPHORE(provider "." name) "\n\t" ".hidden " JAB_TP_SEMAPHORE(provider "." name) "\n\t" \
		JAB_TP_STAPSDT(provider "." name, provider, name, each(JAB_TP_WHERE, ~, __VA_ARGS__)) \
		JAB_TP_BASE \
		JAB_TP_NOTE(".note.jab", "jab", "1", \
			".8byte 980b\n\t" ".4byte " JAB_TP_TEXT(0 each(JAB_TP_ARGS, ~, __VA_ARGS__)) "\n\t" \
			".asciz \"" provider "\", \"" name "\"\n\t" each(JAB_TP_WHAT, ~, __VA_ARGS__)) \
		: : [jab] "n"(0) each(JAB_TP_OPERAND, ~, __VA_ARGS__)); \
	_Pragma("GCC diagnostic pop") \
} while (0)

#define JAB_TP_SITE_0(provider, name) JAB_TP_SITE(JAB_TP_TEXT(provider), JAB_TP_TEXT(name), JAB_TP_EACH_0, ~)
#define JAB_TP_SITE_1(provider, name, ...) JAB_TP_SITE(JAB_TP_TEXT(provider), JAB_TP_TEXT(name), JAB_TP_EACH_1, __VA_ARGS__)
#define JAB_TP_SITE_2(provider, name, ...) JAB_TP_SITE(JAB_TP_TEXT(provider), JAB_TP_TEXT(name), JAB_TP_EACH_2, __VA_ARGS__)
#define JAB_TP_SITE_3(provider, name, ...) JAB_TP_SITE(JAB_TP_TEXT(provider), JAB_TP_TEXT(name), JAB_TP_EACH_3, __VA_ARGS__)
#define JAB_TP_SITE_4(provider, name, ...) JAB_TP_SITE(JAB_TP_TEXT(provider), JAB_TP_TEXT(name), JAB_TP_EACH_4, __VA_ARGS__)
#define JAB_TP_SITE_5(provider, name, ...) JAB_TP_SITE(JAB_TP_TEXT(provider), JAB_TP_TEXT(name), JAB_TP_EACH_5, __VA_ARGS__)
#define JAB_TP_SITE_6(provider, name, ...) JAB_TP_SITE(JAB_TP_TEXT(provider), JAB_TP_TEXT(name), JAB_TP_EACH_6, __VA_ARGS__)
#define JAB_TP_SITE_7(provider, name, ...) JAB_TP_SITE(JAB_TP_TEXT(provider), JAB_TP_TEXT(name), JAB_TP_EACH_7, __VA_ARGS__)
#define JAB_TP_SITE_8(provider, name, ...) JAB_TP_SITE(JAB_TP_TEXT(provider), JAB_TP_TEXT(name), JAB_TP_EACH_8, __VA_ARGS__)
#define JAB_TP_SITE_9(provider, name, ...) JAB_TP_SITE(JAB_TP_TEXT(provider), JAB_TP_TEXT(name), JAB_TP_EACH_9, __VA_ARGS__)
#define JAB_TP_SITE_10(provider, name, ...) JAB_TP_SITE(JAB_TP_TEXT(provider), JAB_TP_TEXT(name), JAB_TP_EACH_10, __VA_ARGS__)
#define JAB_TP_SITE_11(provider, name, ...) JAB_TP_SITE(JAB_TP_TEXT(provider), JAB_TP_TEXT(name), JAB_TP_EACH_11, __VA_ARGS__)
#define JAB_TP_SITE_12(provider, name, ...) JAB_TP_SITE(JAB_TP_TEXT(provider), JAB_TP_TEXT(name), JAB_TP_EACH_12, __VA_ARGS__)
#define JAB_TP_SITE_MANY(...) JAB_TP_ASSERT(0, "at most 12 fields; put more into a struct, JAB_STRUCT()")
#define JAB_TP_SITE_FEW(...) JAB_TP_ASSERT(0, "the first two items are provider and name")

#define JAB_TRACEPOINT(...) JAB_TP_CAT(JAB_TP_SITE_, JAB_TP_COUNT(__VA_ARGS__))(__VA_ARGS__)

/*
 * 9. The semaphore: not 0 while somebody traces the tracepoint.
 */
#ifdef __x86_64__
#define JAB_TP_LOAD(symbol) "movzwl " symbol "(%%rip), %k0\n\t"
#else
#define JAB_TP_LOAD(symbol) "adrp %0, " symbol "\n\tldrh %w0, [%0, :lo12:" symbol "]\n\t"
#endif
#define JAB_TP_ENABLED(x) __extension__({ \
	unsigned long jab_tp_on; \
	__asm__ __volatile__(JAB_TP_LOAD(JAB_TP_SEMAPHORE(x)) \
		".ifndef " JAB_TP_SEMAPHORE(x) "\n\t" \
		".pushsection .probes, \"awG\", \"progbits\", " JAB_TP_SEMAPHORE(x) ", comdat\n\t" \
		".weak " JAB_TP_SEMAPHORE(x) "\n\t" ".hidden " JAB_TP_SEMAPHORE(x) "\n\t" ".balign 2\n" \
		JAB_TP_SEMAPHORE(x) ":\t.2byte 0\n\t" ".size " JAB_TP_SEMAPHORE(x) ", 2\n\t" \
		".popsection\n\t" ".endif\n" : "=r"(jab_tp_on)); \
	__builtin_expect(jab_tp_on != 0, 0); })
#define JAB_TRACEPOINT_ENABLED(provider, name) JAB_TP_ENABLED(JAB_TP_TEXT(provider) "." JAB_TP_TEXT(name))

/*
 * 10. Enums and structs: tables in section jab_types, which jab finds by kind, name and number.
 */
struct jab_tp_table {
	char magic[4];
	unsigned size;		/* of the table, all of it */
	unsigned kind, id;	/* 7: enum, 8: struct */
	unsigned count;		/* of enumerators or members */
	unsigned bytes;		/* of a struct */
};
/* Names of enumerators stand as they were written, with commas; those of members each end with 0, as does what they are of. */
struct jab_tp_member {
	unsigned long long code, offset;
};

#if defined __has_attribute
#if __has_attribute(retain)
#define JAB_TP_TYPE __attribute__((section("jab_types"), used, retain, aligned(8)))
#endif
#endif
#ifndef JAB_TP_TYPE
#define JAB_TP_TYPE __attribute__((section("jab_types"), used, aligned(8)))
#endif
#define JAB_TP_ID(text) (((__LINE__ * 61 + sizeof(__FILE__)) * 509 + sizeof(text)) & 0xffffff)

#ifdef __cplusplus
#define JAB_TP_VALUES(...) decltype(::jab_tp::values_of(__VA_ARGS__)) values;
#define JAB_TP_VALUES_ARE(...) ::jab_tp::values_of(__VA_ARGS__)
#define JAB_TP_CONST static constexpr
#else
#define JAB_TP_VALUES(...) long long values[sizeof((long long[]){ __VA_ARGS__ }) / sizeof(long long)];
#define JAB_TP_VALUES_ARE(...) { __VA_ARGS__ }
#define JAB_TP_CONST static const
#endif

#define JAB_TRACEPOINT_ENUM(type, ...) \
	enum { jab_tp_enum_id_##type = JAB_TP_ID(#__VA_ARGS__) }; \
	JAB_TP_CONST struct jab_tp_enum_##type { \
		struct jab_tp_table head; \
		JAB_TP_VALUES(__VA_ARGS__) \
		char name[sizeof(#type)], names[sizeof(#__VA_ARGS__)]; \
	} jab_tp_enum_##type JAB_TP_TYPE = { \
		{ { 'j', 'a', 'b', 't' }, sizeof(struct jab_tp_enum_##type), 7, jab_tp_enum_id_##type, \
			sizeof(jab_tp_enum_##type.values) / sizeof(long long), 0 }, \
		JAB_TP_VALUES_ARE(__VA_ARGS__), #type, #__VA_ARGS__ }

#define JAB_TP_MEMBER(x, i, field) JAB_TP_FIELD(JAB_TP_MEMBER, x, i, field)
#define JAB_TP_MEMBER_P(x, i, name, m) { JAB_TP_CODE(((x *)0)->m), __builtin_offsetof(x, m) },
#define JAB_TP_MEMBER_E(x, i, name, m, type) \
	{ JAB_TP_ENUMERATED(JAB_TP_CODE(((x *)0)->m), jab_tp_enum_id_##type), __builtin_offsetof(x, m) },
#define JAB_TP_MEMBER_S(x, i, name, m, type) { JAB_TP_STRUCTURE(jab_tp_struct_id_##type), __builtin_offsetof(x, m) },
#define JAB_TP_MEMBER_TAG(x, i, name, m, no, tag, type) JAB_TP_MEMBER_##tag(x, i, name, m, type)
#define JAB_TP_MEMBER_NAME(x, i, field) JAB_TP_FIELD(JAB_TP_MEMBER_NAME, x, i, field)
#define JAB_TP_MEMBER_NAME_P(x, i, name, m) name "\0\0"
#define JAB_TP_MEMBER_NAME_TAG(x, i, name, m, no, tag, type) name "\0" #type "\0"
#define JAB_TP_MEMBER_CHECK(x, i, field) JAB_TP_FIELD(JAB_TP_MEMBER_CHECK, x, i, field)
#define JAB_TP_MEMBER_CHECK_P(x, i, name, m) \
	JAB_TP_ASSERT(JAB_TP_CODE(((x *)0)->m), "the type of member '" name "' is not supported; a struct needs a third item, JAB_STRUCT(TYPE)");
#define JAB_TP_MEMBER_CHECK_C(x, i, name, ...) JAB_TP_ASSERT(0, "member '" name "' can't have a count");
#define JAB_TP_MEMBER_CHECK_TAG(x, i, name, m, no, tag, type) JAB_TP_MEMBER_CHECK_##tag(x, i, name, m, type)
#define JAB_TP_MEMBER_CHECK_E(x, i, name, m, type) \
	JAB_TP_ASSERT(JAB_TP_IS_INT(JAB_TP_CODE(((x *)0)->m)), "member '" name "' is no enum or integer");
#define JAB_TP_MEMBER_CHECK_S(x, i, name, m, type) \
	JAB_TP_ASSERT(JAB_TP_SAME(((x *)0)->m, jab_tp_struct_type_##type), "member '" name "' is not of the struct declared as " #type);

#define JAB_TP_STRUCT_MANY(...) JAB_TP_ASSERT(0, "a struct has at most 12 members here; use a struct in it")
#define JAB_TP_STRUCT_FEW(...) JAB_TP_ASSERT(0, "a struct has members")
#define JAB_TP_STRUCT_0(...) JAB_TP_ASSERT(0, "a struct has members")
#define JAB_TP_STRUCT_1(tag, type, ...) JAB_TP_STRUCT_OF(tag, type, 1, JAB_TP_EACH_1, __VA_ARGS__)
#define JAB_TP_STRUCT_2(tag, type, ...) JAB_TP_STRUCT_OF(tag, type, 2, JAB_TP_EACH_2, __VA_ARGS__)
#define JAB_TP_STRUCT_3(tag, type, ...) JAB_TP_STRUCT_OF(tag, type, 3, JAB_TP_EACH_3, __VA_ARGS__)
#define JAB_TP_STRUCT_4(tag, type, ...) JAB_TP_STRUCT_OF(tag, type, 4, JAB_TP_EACH_4, __VA_ARGS__)
#define JAB_TP_STRUCT_5(tag, type, ...) JAB_TP_STRUCT_OF(tag, type, 5, JAB_TP_EACH_5, __VA_ARGS__)
#define JAB_TP_STRUCT_6(tag, type, ...) JAB_TP_STRUCT_OF(tag, type, 6, JAB_TP_EACH_6, __VA_ARGS__)
#define JAB_TP_STRUCT_7(tag, type, ...) JAB_TP_STRUCT_OF(tag, type, 7, JAB_TP_EACH_7, __VA_ARGS__)
#define JAB_TP_STRUCT_8(tag, type, ...) JAB_TP_STRUCT_OF(tag, type, 8, JAB_TP_EACH_8, __VA_ARGS__)
#define JAB_TP_STRUCT_9(tag, type, ...) JAB_TP_STRUCT_OF(tag, type, 9, JAB_TP_EACH_9, __VA_ARGS__)
#define JAB_TP_STRUCT_10(tag, type, ...) JAB_TP_STRUCT_OF(tag, type, 10, JAB_TP_EACH_10, __VA_ARGS__)
#define JAB_TP_STRUCT_11(tag, type, ...) JAB_TP_STRUCT_OF(tag, type, 11, JAB_TP_EACH_11, __VA_ARGS__)
#define JAB_TP_STRUCT_12(tag, type, ...) JAB_TP_STRUCT_OF(tag, type, 12, JAB_TP_EACH_12, __VA_ARGS__)
#define JAB_TP_STRUCT_OF(tag, type, n, each, ...) \
	typedef type jab_tp_struct_type_##tag; \
	each(JAB_TP_MEMBER_CHECK, jab_tp_struct_type_##tag, __VA_ARGS__) \
	enum { jab_tp_struct_id_##tag = JAB_TP_ID(#__VA_ARGS__) }; \
	JAB_TP_CONST struct jab_tp_struct_##tag { \
		struct jab_tp_table head; \
		struct jab_tp_member member[n]; \
		char name[sizeof(#tag)], names[sizeof(each(JAB_TP_MEMBER_NAME, ~, __VA_ARGS__))]; \
	} jab_tp_struct_##tag JAB_TP_TYPE = { \
		{ { 'j', 'a', 'b', 't' }, sizeof(struct jab_tp_struct_##tag), 8, jab_tp_struct_id_##tag, n, sizeof(type) }, \
		{ each(JAB_TP_MEMBER, jab_tp_struct_type_##tag, __VA_ARGS__) }, #tag, each(JAB_TP_MEMBER_NAME, ~, __VA_ARGS__) }

/* JAB_TRACEPOINT_STRUCT(point, struct point, ("x", x), ("y", y)); */
#define JAB_TRACEPOINT_STRUCT(...) JAB_TP_CAT(JAB_TP_STRUCT_, JAB_TP_COUNT(__VA_ARGS__))(__VA_ARGS__)

#endif
#endif
