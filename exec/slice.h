// A range of numbers inside a flat buffer, and the builder that lays such ranges side by side.
#ifndef MEGATWIN_EXEC_SLICE_H_
#define MEGATWIN_EXEC_SLICE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>

#include "model/assert.h"

namespace megatwin::exec {

struct Slice {
  std::int64_t offset = 0;
  std::int64_t size = 0;

  template <class T>
  std::span<T> of(std::span<T> buffer) const {
    return buffer.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
  }
};

// Requires: as many values as there is room for, or more.
inline void add(std::span<float> to, std::span<const float> values) {
  MEGATWIN_ASSERT(to.size() <= values.size(), values.size(), " numbers to ", to.size());
  std::transform(to.begin(), to.end(), values.begin(), to.begin(), std::plus<>());
}

// What two slices of one buffer have in common; empty when nothing.
inline Slice common(const Slice& a, const Slice& b) {
  const std::int64_t begin = std::max(a.offset, b.offset);
  const std::int64_t end = std::min(a.offset + a.size, b.offset + b.size);
  return {begin, std::max<std::int64_t>(0, end - begin)};
}

// The part of `size` numbers that one of `count` replicas keeps under ZeRO (Rajbhandari et al.,
// arXiv:1910.02054, section 5); the last ones may be shorter or empty.
inline Slice shard_of(std::int64_t size, int replica, int count) {
  const std::int64_t shard = (size + count - 1) / count;
  const std::int64_t begin = std::min(size, replica * shard);
  return {begin, std::min(size, begin + shard) - begin};
}

class Layout {
 public:
  Slice take(std::int64_t size) {
    const Slice slice{size_, size};
    size_ += size;
    return slice;
  }
  std::int64_t size() const { return size_; }

 private:
  std::int64_t size_ = 0;
};

// Hands out parts of a buffer one after the other; they all go back together.
class Workspace {
 public:
  explicit Workspace(std::span<float> buffer) : buffer_(buffer) {}
  std::span<float> take(std::int64_t size) {
    const auto count = static_cast<std::size_t>(size);
    MEGATWIN_ASSERT(used_ + count <= buffer_.size(), used_, " + ", count, " of ", buffer_.size());
    const std::span<float> part = buffer_.subspan(used_, count);
    used_ += count;
    return part;
  }

  // What nobody has taken yet.
  std::span<float> rest() const { return buffer_.subspan(used_); }

 private:
  std::span<float> buffer_;
  std::size_t used_ = 0;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_SLICE_H_
