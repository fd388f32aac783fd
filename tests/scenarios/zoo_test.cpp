#include "scenarios/zoo.h"

#include <charconv>
#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "model/parameters.h"

namespace megatwin::scenarios {
namespace {

// Half a unit of the last digit that was published: 0 for a whole number, 0.05e9 for "174.6e9".
double half_unit(const std::string& published) {
  const std::size_t exponent = published.find('e');
  if (exponent == std::string::npos) return 0;
  const std::size_t point = published.find('.');
  const double digits = point == std::string::npos ? 0 : static_cast<double>(exponent - point - 1);
  return 0.5 * std::pow(10.0, 9 - digits);
}

double value_of(const std::string& published) {
  double value = 0;
  std::from_chars(published.data(), published.data() + published.size(), value);
  return value;
}

void expect_published(std::int64_t count, const std::string& published, double tolerance,
                      const std::string& name) {
  const double value = value_of(published);
  EXPECT_NEAR(static_cast<double>(count), value, half_unit(published) + tolerance * value)
      << name << " has " << count << " parameters by our count, published " << published;
}

TEST(Zoo, EveryModelHasItsPublishedCount) {
  ASSERT_GT(zoo_names().size(), 60U);
  for (const std::string& name : zoo_names()) {
    const auto zoo = find_zoo_model(name);
    ASSERT_TRUE(zoo) << name;
    EXPECT_FALSE(zoo->published.empty()) << name;
    const model::ParameterCounts counts = model::count_parameters(zoo->transformer);
    expect_published(counts.total, zoo->published, zoo->published_tolerance, name);
    if (zoo->published_active.empty()) continue;
    expect_published(counts.active, zoo->published_active, 0, name + " (active)");
  }
}

}  // namespace
}  // namespace megatwin::scenarios
