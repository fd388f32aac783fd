#include "scenarios/huggingface.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include "model/parameters.h"

namespace megatwin::scenarios {
namespace {

TEST(Tmp, All) {
  for (const auto& e : std::filesystem::directory_iterator("/work/shared/data/files/hf_config")) {
    const auto r = load_huggingface_config(e.path());
    std::cout << e.path().filename() << " ";
    if (!r) { std::cout << to_text(r.error()); continue; }
    const auto c = model::count_parameters(r->transformer);
    std::cout << c.total << " " << c.active << " mtp " << c.mtp_total << "\n" << to_text(r->warnings);
    for (const auto& i : r->ignored) std::cout << i << " ";
    std::cout << "\n";
  }
}

}  // namespace
}  // namespace megatwin::scenarios
