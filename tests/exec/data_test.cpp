// Tokens from files and the windows cut from them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "exec/held_out.h"
#include "exec/token_file.h"
#include "exec/training.h"
#include "exec/window_source.h"
#include "tests/temporary_folder.h"

namespace megatwin::exec {
namespace {

std::string counting_bytes(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(i % 128));
  return bytes;
}

TEST(TokenFile, EveryByteOfATextIsAToken) {
  const auto tokens = parse_text("a.txt", "aé", 256);
  ASSERT_TRUE(tokens);
  ASSERT_EQ(tokens->size(), 3);
  EXPECT_EQ((*tokens)[0], 'a');
  EXPECT_EQ((*tokens)[1], 0xc3);
  EXPECT_EQ((*tokens)[2], 0xa9);
}

TEST(TokenFile, RefusesWhatIsNoText) {
  const auto small = parse_text("a.txt", "abc", 32);
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error()[0].message,
            "a text has 256 kinds of bytes, and the model's vocabulary is 32");
  // A lone continuation, an overlong slash, a surrogate, a character that is cut off.
  for (const char* bytes : {"ab\x80", "\xc0\xaf", "\xed\xa0\x80", "ab\xe2\x82"}) {
    const auto broken = parse_text("a.txt", bytes, 256);
    ASSERT_FALSE(broken);
    EXPECT_EQ(broken.error()[0].message.substr(0, 19), "is not UTF-8 at byt") << bytes;
  }
}

TEST(TokenFile, ReadsBackWhatItWrites) {
  for (const std::vector<std::int32_t>& written :
       {std::vector<std::int32_t>{0, 1, 50256, 65535}, {7, 128255, 65536}}) {
    const std::string bytes = token_file_bytes(written);
    EXPECT_EQ(bytes.size(), 1024 + written.size() * (written[1] > 65535 ? 4 : 2));
    const auto tokens = parse_token_file("a.bin", bytes, 200000);
    ASSERT_TRUE(tokens);
    ASSERT_EQ(tokens->size(), std::ssize(written));
    for (std::int64_t i = 0; i < tokens->size(); ++i) {
      EXPECT_EQ((*tokens)[i], written[static_cast<std::size_t>(i)]);
    }
  }
}

TEST(TokenFile, RefusesOtherFiles) {
  const std::string good = token_file_bytes(std::vector<std::int32_t>{1, 2, 3});
  const auto message = [](const std::string& bytes, std::int64_t vocabulary) {
    const auto tokens = parse_token_file("a.bin", bytes, vocabulary);
    return tokens ? std::string() : tokens.error()[0].message;
  };
  EXPECT_EQ(message(good, 4), "");
  EXPECT_EQ(message(good, 3), "token 2 is 3");
  EXPECT_EQ(message(good.substr(0, 100), 4), "is no token file: it has 100 bytes");
  const std::string says = "says that it has 3 tokens, with the header 1030 bytes, and has ";
  EXPECT_EQ(message(good.substr(0, good.size() - 2), 4), says + "1028 bytes");
  EXPECT_EQ(message(good + "x", 4), says + "1031 bytes");
  EXPECT_EQ(message(std::string(2000, 'x'), 4),
            "is no token file: it starts with 2021161080, version 2021161080");
}

// Opened, it would wait for somebody who writes.
TEST(TokenFile, APipeIsNoFile) {
  const tests::TemporaryFolder folder;
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const auto kind : {model::TrainingDataKind::Text, model::TrainingDataKind::Tokens}) {
    const auto tokens = read_tokens({.kind = kind, .path = pipe}, 256);
    ASSERT_FALSE(tokens);
    EXPECT_EQ(tokens.error().front().message, "is a named pipe, not a file");
  }
}

// /dev/zero was read until the memory was full.
TEST(TokenFile, ADeviceWithoutAnEndIsNoFile) {
  const auto message = [](const std::string& path) {
    const auto tokens = read_tokens({.kind = model::TrainingDataKind::Text, .path = path}, 256);
    return tokens ? std::string() : tokens.error().front().message;
  };
  for (const char* path : {"/dev/zero", "/dev/urandom", "/dev/full"}) {
    EXPECT_EQ(message(path), "is a device, not a file") << path;
  }
  EXPECT_EQ(message("/dev/null").find("is a device"), std::string::npos);

  // As the shell opens `data.text=/dev/stdin` of `yes | megatwin train`, and `< /dev/zero`.
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> yes(popen("yes", "r"), &pclose);
  ASSERT_NE(yes, nullptr);
  const std::string pipe = "/dev/fd/" + std::to_string(fileno(yes.get()));
  EXPECT_EQ(message(pipe), "gives more than 256 MiB, and a pipe need not end");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> zero(std::fopen("/dev/zero", "rb"),
                                                             &std::fclose);
  ASSERT_NE(zero, nullptr);
  EXPECT_EQ(message("/dev/fd/" + std::to_string(fileno(zero.get()))), "is a device, not a file");

  // One that ends is a text like any other.
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> text(popen("printf 'two words'", "r"), &pclose);
  ASSERT_NE(text, nullptr);
  const auto tokens = read_tokens({.kind = model::TrainingDataKind::Text,
                                   .path = "/dev/fd/" + std::to_string(fileno(text.get()))},
                                  256);
  ASSERT_TRUE(tokens) << to_text(tokens.error());
  EXPECT_EQ(tokens->size(), 9);
}

TEST(WindowSource, APermutationHitsEverythingOnce) {
  for (const std::int64_t size : {1, 2, 3, 17, 64, 1000}) {
    for (const std::uint64_t key : {1u, 2u, 99u}) {
      std::set<std::int64_t> images;
      for (std::int64_t i = 0; i < size; ++i) images.insert(permuted(i, size, key));
      EXPECT_EQ(std::ssize(images), size);
      EXPECT_GE(*images.begin(), 0);
      EXPECT_LT(*images.rbegin(), size);
    }
  }
}

// 101 tokens, 20 % held out: floor(20.2) = 20 from the end, 81 to train on. Windows of 8 and the
// token after: (81 - 1) / 8 = 10; (20 - 1) / 8 = 2, from token 81.
TEST(WindowSource, CutsAndHoldsOut) {
  const auto tokens = parse_text("a.txt", counting_bytes(101), 256);
  const WindowSource source({.tokens = *tokens,
                             .held_out = 0.2,
                             .sequence_length = 8,
                             .micro_batch = 2,
                             .global_batch = 4});
  EXPECT_EQ(source.num_windows(), 10);
  EXPECT_EQ(source.num_held_out(), 2);
  EXPECT_EQ(source.held_out_window(0).tokens.front(), 81);
  EXPECT_EQ(source.held_out_window(1).targets.back(), 97);
  EXPECT_EQ(source.training_window(9).targets.back(), 80);

  // Ten sequences are an epoch: each window once, and none of the held-out tokens.
  std::multiset<std::int32_t> starts;
  for (std::int64_t number = 0; number < 10; ++number) {
    const TokenBatch batch = source.batch({.step = number / 4, .micro_batch = number % 4 / 2});
    ASSERT_EQ(batch.tokens.size(), 16u);
    const auto begin = static_cast<std::size_t>(number % 2 * 8);
    starts.insert(batch.tokens[begin]);
    for (std::size_t i = begin; i < begin + 8; ++i) {
      EXPECT_EQ(batch.targets[i], batch.tokens[i] + 1);
      EXPECT_LT(batch.targets[i], 81);
    }
  }
  EXPECT_EQ(starts, (std::multiset<std::int32_t>{0, 8, 16, 24, 32, 40, 48, 56, 64, 72}));
}

TEST(WindowSource, SaysWhatATextLacks) {
  const auto tokens = parse_text("a.txt", counting_bytes(20), 256);
  const auto problems =
      window_problems({.tokens = *tokens, .held_out = 0.25, .sequence_length = 16});
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0], "there are 15 tokens to train on; a sequence of 16 needs one more");
}

// "ababab|ab": before `from` the third byte is a or b by turns. Counted from the third byte: a, b,
// a, b. For the first held-out a: after "ab" came a once and nothing else, (1 + 1·p)/(1 + 1), where
// p after b is (1 + 1·q)/2 and q = (2 + 2/256)/(4 + 2). Then b after "ba", seen twice: (2 + p')/3
// with p' = (2 + q)/3.
TEST(ByteTrigram, CountsByHand) {
  const auto tokens = parse_text("a.txt", "abababab", 256);
  const double q = (2 + 2.0 / 256) / 6;
  const double after_b = (2 + q) / 3;  // After b came a twice: bytes 2 and 4.
  const double after_a = (2 + q) / 3;  // After a came b twice: bytes 3 and 5.
  const double first = (2 + after_b) / 3;
  const double second = (2 + after_a) / 3;
  EXPECT_NEAR(byte_trigram_loss(*tokens, 6), -(std::log(first) + std::log(second)) / 2, 1e-12);
}

// Warm-up of 4: 1/4, 2/4, 3/4, 1; then half a cosine over steps 4…14, halfway at 9.
TEST(LearningRate, RisesAndFalls) {
  const model::TrainingSettings settings{
      .steps = 15, .learning_rate = 1e-3, .learning_rate_final = 1e-4, .warmup_steps = 4};
  EXPECT_DOUBLE_EQ(learning_rate_factor(settings, 0), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate_factor(settings, 3), 1);
  EXPECT_DOUBLE_EQ(learning_rate_factor(settings, 4), 1);
  EXPECT_NEAR(learning_rate_factor(settings, 9), 0.55, 1e-12);
  EXPECT_NEAR(learning_rate_factor(settings, 14), 0.1, 1e-12);
}

}  // namespace
}  // namespace megatwin::exec
