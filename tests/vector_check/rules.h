// Which function of model/ answers which quantity. A rule names words that the quantity must (or,
// with '-', must not) hold; '|' parts alternatives. The first rule that matches and finds its
// inputs answers, so special ones come first.
#ifndef MEGATWIN_TESTS_VECTOR_CHECK_RULES_H_
#define MEGATWIN_TESTS_VECTOR_CHECK_RULES_H_

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "model/transformer.h"
#include "tests/vector_check/row.h"

namespace megatwin::vector_check {

struct Rule {
  std::string_view words;
  std::function<double(const Row&)> answer;  // In the row's unit; throws MissingInput.
};
using Rules = std::vector<Rule>;

Rules pipeline_rules();
Rules flop_rules();
Rules parameter_rules();
Rules memory_rules();
Rules collective_rules();
Rules kernel_rules();
Rules operation_rules();  // Reliability, stragglers, energy, cost, splits, networks.

// The answer in the row's unit, none when no rule knows it.
std::optional<double> answer(const Row& row);

bool matches(std::string_view words, std::string_view quantity);

// A transformer from inputs named as papers do (L h f nh nkv hd V s, E, topk, …).
model::Transformer transformer_from(const Inputs& inputs);
// A GPT with learned positions of s, tied embeddings, biases.
model::Transformer gpt_from(const Inputs& inputs);

}  // namespace megatwin::vector_check

#endif  // MEGATWIN_TESTS_VECTOR_CHECK_RULES_H_
