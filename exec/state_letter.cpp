#include "exec/state_letter.h"

#include "model/assert.h"

namespace megatwin::exec {

ByteVector state_letter(std::span<const ChunkState> state) {
  ByteWriter writer;
  for (const ChunkState& chunk : state) {
    writer.put(chunk.held);
    writer.put(chunk.stepped);
    for (const std::span<float> numbers :
         {chunk.weights, chunk.first_moment, chunk.second_moment}) {
      writer.put_list(numbers);
    }
  }
  return writer.take();
}

StateLetter::StateLetter(const ModelShape& shape, const Writer& writer, const ByteVector& letter) {
  ByteReader reader(letter);
  const auto numbers = [&]() -> std::span<float> {
    return numbers_.emplace_back(reader.list<float>());
  };
  for (const ChunkPart& part : writer.parts) {
    tables_.push_back(std::make_unique<ParameterTable>(
        parameter_table({.shape = shape,
                         .part = part,
                         .member = {.tensor = writer.coordinates.tensor,
                                    .expert = writer.coordinates.expert,
                                    .expert_tensor = writer.coordinates.expert_tensor}})));
    for (std::size_t unit = 0; unit < tables_.back()->units.size(); ++unit) {
      ChunkState& chunk = state_.emplace_back();
      chunk.rank = writer.rank;
      chunk.table = tables_.back().get();
      chunk.held = reader.get<Slice>();
      chunk.stepped = reader.get<Slice>();
      chunk.weights = numbers();
      chunk.first_moment = numbers();
      chunk.second_moment = numbers();
    }
  }
  MEGATWIN_ASSERT(reader.at_end(), "rank ", writer.rank.value, " wrote more");
}

}  // namespace megatwin::exec
