// Values as bytes and back, in the order in which they were written, for messages between ranks and
// processes of the same program: no version, no byte order.
#ifndef MEGATWIN_MODEL_BYTE_STREAM_H_
#define MEGATWIN_MODEL_BYTE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "model/assert.h"

namespace megatwin::model {

using ByteVector = std::vector<std::byte>;

class ByteWriter {
 public:
  template <class T>
  void put(const T& value) {
    put_all(std::span<const T>(&value, 1));
  }
  // Without their number.
  template <class T>
  void put_all(std::span<T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto bytes = std::as_bytes(values);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  // With it: a vector, a span or a string.
  template <class Values>
  void put_list(const Values& values) {
    put(static_cast<std::uint64_t>(std::size(values)));
    put_all(std::span(std::data(values), std::size(values)));
  }
  void put_text(std::string_view text) { put_list(text); }
  // The bytes of another writer, to be read by ByteReader::block().
  void put_block(const ByteWriter& block) { put_list(block.bytes_); }

  std::span<const std::byte> bytes() const { return bytes_; }
  ByteVector take() { return std::move(bytes_); }

 private:
  ByteVector bytes_;
};

// The bytes must outlive it.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  T get() {
    T value{};
    get_all(std::span<T>(&value, 1));
    return value;
  }
  template <class T>
  void get_all(std::span<T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    MEGATWIN_ASSERT(values.size_bytes() <= bytes_.size(), values.size_bytes(), " of ",
                    bytes_.size());
    if (!values.empty()) {
      std::memcpy(values.data(), bytes_.data(), values.size_bytes());
    }
    bytes_ = bytes_.subspan(values.size_bytes());
  }
  template <class T>
  std::vector<T> list() {
    std::vector<T> values(count(sizeof(T)));
    get_all(std::span<T>(values));
    return values;
  }
  std::string text() {
    std::string text(count(1), '\0');
    get_all(std::span<char>(text.data(), text.size()));
    return text;
  }
  ByteReader block() {
    const auto whole = bytes_.subspan(sizeof(std::uint64_t));
    const std::size_t size = count(1);
    bytes_ = bytes_.subspan(size);
    return ByteReader(whole.first(size));
  }
  bool at_end() const { return bytes_.empty(); }
  std::span<const std::byte> rest() const { return bytes_; }

 private:
  std::size_t count(std::size_t size_of_one) {
    const auto number = get<std::uint64_t>();
    MEGATWIN_ASSERT(number <= bytes_.size() / size_of_one, number, " in ", bytes_.size());
    return static_cast<std::size_t>(number);
  }

  std::span<const std::byte> bytes_;
};

template <class T>
ByteVector bytes_of(std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {bytes.begin(), bytes.end()};
}

// Requires: the bytes are whole values.
template <class T>
std::vector<T> values_of(std::span<const std::byte> bytes) {
  MEGATWIN_ASSERT(bytes.size() % sizeof(T) == 0, bytes.size());
  std::vector<T> values(bytes.size() / sizeof(T));
  ByteReader(bytes).get_all(std::span<T>(values));
  return values;
}

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_BYTE_STREAM_H_
