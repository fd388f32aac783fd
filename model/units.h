// Quantities with their dimension in the type: bytes, FLOP and seconds in whole powers. Mixing them
// does not compile. A number leaves its type in one place only, the printer. Also the integer
// instant (nanoseconds) that events, traces and goldens hold, and the one function that rounds to
// it.
#ifndef MEGATWIN_MODEL_UNITS_H_
#define MEGATWIN_MODEL_UNITS_H_

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdint>

namespace megatwin::model {

// byte^B · FLOP^F · second^S. `value` is in byte, FLOP and second.
template <int B, int F, int S>
struct Quantity {
  double value = 0;

  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return {a.value + b.value}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return {a.value - b.value}; }
  friend constexpr Quantity operator*(double k, Quantity q) { return {k * q.value}; }
  friend constexpr Quantity operator/(Quantity q, double k) { return {q.value / k}; }
  constexpr Quantity& operator+=(Quantity other) {
    value += other.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value -= other.value;
    return *this;
  }
};

template <int B, int F, int S, int C, int G, int T>
constexpr auto operator*(Quantity<B, F, S> a, Quantity<C, G, T> b) {
  return Quantity<B + C, F + G, S + T>{a.value * b.value};
}
template <int B, int F, int S, int C, int G, int T>
constexpr auto operator/(Quantity<B, F, S> a, Quantity<C, G, T> b) {
  return Quantity<B - C, F - G, S - T>{a.value / b.value};
}

using Bytes = Quantity<1, 0, 0>;
using Flop = Quantity<0, 1, 0>;
using Seconds = Quantity<0, 0, 1>;
using FlopPerByte = Quantity<-1, 1, 0>;
using BytesPerSecond = Quantity<1, 0, -1>;
using FlopPerSecond = Quantity<0, 1, -1>;

// A dimensionless quotient as a plain number.
constexpr double ratio(Quantity<0, 0, 0> q) { return q.value; }

// Energy and power have dimensions of their own, so that watts never meet bytes per second.
struct Joules {
  double value = 0;
  friend constexpr auto operator<=>(Joules, Joules) = default;
  friend constexpr Joules operator+(Joules a, Joules b) { return {a.value + b.value}; }
};
struct Watts {
  double value = 0;
  friend constexpr auto operator<=>(Watts, Watts) = default;
  friend constexpr Watts operator+(Watts a, Watts b) { return {a.value + b.value}; }
  friend constexpr Watts operator*(double k, Watts w) { return {k * w.value}; }
  friend constexpr Joules operator*(Watts w, Seconds t) { return {w.value * t.value}; }
};
struct Hertz {
  double value = 0;
  friend constexpr auto operator<=>(Hertz, Hertz) = default;
};
struct Usd {
  double value = 0;
  friend constexpr auto operator<=>(Usd, Usd) = default;
};

// Decimal GB = 1e9 bytes, binary GiB = 2^30 bytes; only the suffix decides.
constexpr Bytes operator""_B(unsigned long long n) { return {static_cast<double>(n)}; }
constexpr Bytes operator""_KiB(unsigned long long n) { return {static_cast<double>(n) * 1024}; }
constexpr Bytes operator""_MiB(unsigned long long n) {
  return {static_cast<double>(n) * 1024 * 1024};
}
constexpr Bytes operator""_GiB(unsigned long long n) {
  return {static_cast<double>(n) * 1024 * 1024 * 1024};
}
constexpr Bytes operator""_GB(unsigned long long n) { return {static_cast<double>(n) * 1e9}; }
constexpr BytesPerSecond operator""_GBps(unsigned long long n) {
  return {static_cast<double>(n) * 1e9};
}
constexpr BytesPerSecond operator""_GBps(long double n) { return {static_cast<double>(n) * 1e9}; }
constexpr FlopPerSecond operator""_TFLOPps(unsigned long long n) {
  return {static_cast<double>(n) * 1e12};
}
constexpr Seconds operator""_us(long double n) { return {static_cast<double>(n) * 1e-6}; }
constexpr Seconds operator""_us(unsigned long long n) { return {static_cast<double>(n) * 1e-6}; }
constexpr Seconds operator""_ms(unsigned long long n) { return {static_cast<double>(n) * 1e-3}; }

// A point in, or a span of, simulated time: integer nanoseconds. Events, traces and goldens hold
// these; computed durations are Seconds until round_to_instant() is called once per task.
struct Instant {
  std::int64_t ns = 0;
  friend constexpr auto operator<=>(Instant, Instant) = default;
  friend constexpr Instant operator+(Instant a, Instant b) { return {a.ns + b.ns}; }
  friend constexpr Instant operator-(Instant a, Instant b) { return {a.ns - b.ns}; }
  constexpr Instant& operator+=(Instant other) {
    ns += other.ns;
    return *this;
  }
};

// The one rounding of a computed duration to the clock of the simulator: to the nearest nanosecond.
// What is beyond 31 years, or no number, becomes 31 years, of which nine still fit into the count.
inline constexpr Instant kDurationMax{1'000'000'000'000'000'000};
inline Instant round_to_instant(Seconds duration) {
  const double ns = duration.value * 1e9;
  const auto ns_max = static_cast<double>(kDurationMax.ns);
  if (!(ns < ns_max)) return kDurationMax;
  return {static_cast<std::int64_t>(std::llround(std::max(ns, -ns_max)))};
}
constexpr Seconds to_seconds(Instant instant) { return {static_cast<double>(instant.ns) * 1e-9}; }

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_UNITS_H_
