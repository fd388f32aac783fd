#include "exec/norm_exchange.h"

#include <cmath>

namespace megatwin::exec {
namespace {

constexpr Channel kChannel{Topic::Norm, 0};

ByteVector letter_of(const std::vector<RankModel::NormPart>& parts) {
  ByteWriter writer;
  for (const RankModel::NormPart& part : parts) {
    writer.put_text(part.name);
    writer.put(part.squares);
  }
  return writer.take();
}

}  // namespace

void NormExchange::join(const std::vector<RankModel::NormPart>& parts) {
  const ByteVector letter = letter_of(parts);
  for (const model::RankId other : world_.ranks_but(rank_)) {
    world_.send({.from = rank_, .to = other, .channel = kChannel}, letter);
  }
  keep(rank_, letter);
  joined_ = true;
}

void NormExchange::keep(model::RankId rank, const ByteVector& letter) {
  ByteReader reader(letter);
  while (!reader.at_end()) {
    const std::string name = reader.text();
    squares_[{name, rank}] = reader.get<double>();
  }
}

std::optional<double> NormExchange::norm() {
  if (norm_ || !joined_) {
    return norm_;
  }
  const std::vector<model::RankId> others = world_.ranks_but(rank_);
  Mailbox& mailbox = world_.mailbox(rank_);
  if (!mailbox.has_letters(others, kChannel)) {
    return std::nullopt;
  }
  for (const model::RankId other : others) {
    keep(other, *mailbox.take_letter(other, kChannel));
  }
  double sum = 0;
  for (const auto& [key, squares] : squares_) {
    sum += squares;
  }
  norm_ = std::sqrt(sum);
  world_.progress();
  return norm_;
}

void NormExchange::reset() {
  joined_ = false;
  squares_.clear();
  norm_.reset();
}

}  // namespace megatwin::exec
