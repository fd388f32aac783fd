// One function a parser: it must survive any bytes. libFuzzer drives them (preset fuzz), and the
// ordinary test replay_corpus_test.cpp runs them over tests/fuzz/corpus/<target>/.
#ifndef MEGATWIN_TESTS_FUZZ_FUZZ_TARGETS_H_
#define MEGATWIN_TESTS_FUZZ_FUZZ_TARGETS_H_

#include <string_view>

namespace megatwin::fuzz {

void scenario(std::string_view text);
void quantity(std::string_view text);
void hf_config(std::string_view text);
void launch(std::string_view text);
void measured_rows(std::string_view text);
void operation_rows(std::string_view text);
void cluster_descriptions(std::string_view text);

}  // namespace megatwin::fuzz

// Defines libFuzzer's entry in the fuzzing build only.
#ifdef MEGATWIN_LIBFUZZER
#include <cstddef>
#include <cstdint>
#define MEGATWIN_FUZZ_ENTRY(target)                                                     \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {   \
    ::megatwin::fuzz::target({reinterpret_cast<const char*>(data), size}); /* NOLINT */ \
    return 0;                                                                           \
  }
#else
#define MEGATWIN_FUZZ_ENTRY(target) static_assert(true)
#endif

#endif  // MEGATWIN_TESTS_FUZZ_FUZZ_TARGETS_H_
