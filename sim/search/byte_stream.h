// Values as bytes and back, for messages between processes of the same program: no version, no byte
// order.
#ifndef MEGATWIN_SIM_SEARCH_BYTE_STREAM_H_
#define MEGATWIN_SIM_SEARCH_BYTE_STREAM_H_

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "model/assert.h"

namespace megatwin::sim {

class ByteWriter {
 public:
  template <class Value>
  void put(const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    append(&value, sizeof(Value));
  }
  template <class Value>
  void put_list(const std::vector<Value>& values) {
    static_assert(std::is_trivially_copyable_v<Value>);
    put(values.size());
    append(values.data(), values.size() * sizeof(Value));
  }
  void put_text(std::string_view text) {
    put(text.size());
    append(text.data(), text.size());
  }
  // The bytes of another writer, to be read by ByteReader::block().
  void put_block(const ByteWriter& block) { put_list(block.bytes_); }

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  void append(const void* data, std::size_t size) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + size);
  }

  std::vector<std::byte> bytes_;
};

// Reads what a ByteWriter wrote, in its order. The bytes must outlive it.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class Value>
  Value get() {
    Value value;
    std::memcpy(&value, take(sizeof(Value)).data(), sizeof(Value));
    return value;
  }
  template <class Value>
  std::vector<Value> list() {
    std::vector<Value> values(get<std::size_t>());
    const auto bytes = take(values.size() * sizeof(Value));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::string text() {
    const auto bytes = take(get<std::size_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  ByteReader block() { return ByteReader(take(get<std::size_t>())); }

 private:
  std::span<const std::byte> take(std::size_t size) {
    MEGATWIN_ASSERT(size <= bytes_.size(), size, " bytes of ", bytes_.size());
    const auto taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }

  std::span<const std::byte> bytes_;
};

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_BYTE_STREAM_H_
