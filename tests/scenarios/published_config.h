// Texts of config.json, and what reading them gives.
#ifndef MEGATWIN_TESTS_SCENARIOS_PUBLISHED_CONFIG_H_
#define MEGATWIN_TESTS_SCENARIOS_PUBLISHED_CONFIG_H_

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "scenarios/huggingface.h"

namespace megatwin::scenarios {

// Warnings or errors; empty: none.
inline std::string problems_of(const std::string& text) {
  const model::Result<HuggingfaceModel> config = parse_huggingface_config("config.json", text);
  return config ? to_text(config->warnings) : to_text(config.error());
}

inline model::Transformer transformer_of(const std::string& text) {
  const model::Result<HuggingfaceModel> config = parse_huggingface_config("config.json", text);
  EXPECT_TRUE(config) << to_text(config.error());
  return config ? config->transformer : model::Transformer{};
}

struct Published {
  const char* name;
  std::int64_t parameters;
  const char* config;
};

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_TESTS_SCENARIOS_PUBLISHED_CONFIG_H_
