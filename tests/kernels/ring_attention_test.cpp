// A ring of ranks against one: attention over blocks of keys, one after the other, is attention
// over all of them.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/reference_attention.h"
#include "kernels/reference_exponential.h"
#include "tests/kernels/central_difference.h"

namespace megatwin::kernels::reference {
namespace {

using tests::numbers;
using Vector = std::vector<double>;
using Positions = std::vector<std::int64_t>;

std::size_t count(std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); }

// Copies columns [from, from + width) of row `row` of one buffer to row `to_row` of another.
struct Columns {
  std::int64_t row_width = 0, from = 0, width = 0;
};
void copy_row(const Vector& source, std::int64_t row, Columns read, Vector& target,
              std::int64_t to_row, Columns write) {
  for (std::int64_t i = 0; i < read.width; ++i) {
    target[static_cast<std::size_t>(to_row * write.row_width + write.from + i)] =
        source[static_cast<std::size_t>(row * read.row_width + read.from + i)];
  }
}

// What one member of the ring holds of `whole`.
struct Member {
  Member(const AttentionShape& all, const AttentionShape& part, const Positions& at,
         const Vector& whole_qkv, const Vector& whole_dout)
      : positions(at),
        qkv(count(part.rows(), part.qkv_width())),
        keys_values(count(part.rows(), part.key_value_width())),
        out(count(part.rows(), part.out_width())),
        log_sums(count(part.rows(), part.heads)),
        dout(out.size()),
        dqkv(qkv.size()),
        dkeys_values(keys_values.size()) {
    const std::int64_t width = all.qkv_width();
    for (std::int64_t row = 0; row < part.rows(); ++row) {
      const std::int64_t from = row_in_whole(all, part, row);
      copy_row(whole_qkv, from, {width, 0, width}, qkv, row, {width, 0, width});
      copy_row(whole_qkv, from, {width, all.out_width(), all.key_value_width()}, keys_values, row,
               {all.key_value_width(), 0, all.key_value_width()});
      copy_row(whole_dout, from, {all.out_width(), 0, all.out_width()}, dout, row,
               {all.out_width(), 0, all.out_width()});
    }
  }
  std::int64_t row_in_whole(const AttentionShape& all, const AttentionShape& part,
                            std::int64_t row) const {
    return row / part.sequence * all.sequence +
           positions[static_cast<std::size_t>(row % part.sequence)];
  }
  Positions positions;
  Vector qkv, keys_values, out, log_sums, dout, dqkv, dkeys_values;
};

// Eight tokens in four chunks, the first and the last on one rank: as many keys for both.
TEST(RingAttention, IsAttention) {
  const AttentionShape all{2, 8, 4, 2, 6};
  AttentionShape part = all;
  part.sequence = 4;
  const Vector qkv = numbers(count(all.rows(), all.qkv_width()), 1);
  const Vector dout = numbers(count(all.rows(), all.out_width()), 2);
  Vector out(dout.size());
  Vector log_sums(count(all.rows(), all.heads));
  Vector dqkv(qkv.size());
  attention_forward<double>({all, qkv, out, log_sums});
  attention_backward<double>({all, qkv, out, log_sums, dout, dqkv});

  std::vector<Member> members;
  members.emplace_back(all, part, Positions{0, 1, 6, 7}, qkv, dout);
  members.emplace_back(all, part, Positions{2, 3, 4, 5}, qkv, dout);
  for (std::size_t mine = 0; mine < 2; ++mine) {
    for (const std::size_t theirs : {mine, 1 - mine}) {
      ring_attention_forward<double>(
          {.shape = part,
           .positions = {members[mine].positions, members[theirs].positions},
           .first = theirs == mine,
           .qkv = members[mine].qkv,
           .keys_values = members[theirs].keys_values,
           .out = members[mine].out,
           .log_sums = members[mine].log_sums});
    }
  }
  for (Member& mine : members) {
    for (Member& theirs : members) {
      ring_attention_backward<double>({.shape = part,
                                       .positions = {mine.positions, theirs.positions},
                                       .qkv = mine.qkv,
                                       .keys_values = theirs.keys_values,
                                       .out = mine.out,
                                       .log_sums = mine.log_sums,
                                       .dout = mine.dout,
                                       .dqkv = mine.dqkv,
                                       .dkeys_values = theirs.dkeys_values});
    }
  }
  for (const Member& member : members) {
    for (std::int64_t row = 0; row < part.rows(); ++row) {
      const std::int64_t there = member.row_in_whole(all, part, row);
      for (std::int64_t i = 0; i < all.out_width(); ++i) {
        EXPECT_NEAR(member.out[count(row * all.out_width() + i, 1)],
                    out[count(there * all.out_width() + i, 1)], 1e-13);
        EXPECT_NEAR(member.dqkv[count(row * all.qkv_width() + i, 1)],
                    dqkv[count(there * all.qkv_width() + i, 1)], 1e-13);
      }
      for (std::int64_t i = 0; i < all.key_value_width(); ++i) {
        EXPECT_NEAR(member.dkeys_values[count(row * all.key_value_width() + i, 1)],
                    dqkv[count(there * all.qkv_width() + all.out_width() + i, 1)], 1e-13);
      }
    }
  }
}

// Within two units in the last place, 2 · 2⁻²³ relative, wherever a softmax may ask.
TEST(Exponential, IsThatOfTheLibrary) {
  for (int i = 0; i < 12759; ++i) {  // To 87.9.
    const float x = -86.9F + 0.0137F * static_cast<float>(i);
    const double expected = std::exp(static_cast<double>(x));
    EXPECT_NEAR(exponential(x) / expected, 1, 2.4e-7) << x;
  }
  EXPECT_EQ(exponential(0.0F), 1);
  EXPECT_LT(exponential(-1e30F), 1e-37F);
  EXPECT_TRUE(std::isnan(exponential(std::nanf(""))));
}

}  // namespace
}  // namespace megatwin::kernels::reference
