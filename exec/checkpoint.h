// Checkpoints of a run: a folder a step, `step-00000100`, that appears whole or not at all. It
// holds model.safetensors and config.json as Hugging Face reads them, optimizer.safetensors with
// the moments by parameter, and a manifest with the length and checksum of each. Everything is
// stored whole, so that a run of any other plan goes on from it.
//
// A save writes a folder under another name, with every file forced to disk, then renames it: the
// process may be killed at any byte, and what was saved before stays as it was.
#ifndef MEGATWIN_EXEC_CHECKPOINT_H_
#define MEGATWIN_EXEC_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "exec/model_state.h"
#include "model/result.h"
#include "model/transformer.h"

namespace megatwin::exec {

// What must be the same for a run to go on as if it had never stopped.
struct CheckpointPoint {
  int step = 0;  // Steps that are done.
  std::uint64_t seed = 1;
  std::int64_t global_batch = 1;  // Sequences.
  std::int64_t sequence_length = 1;
  friend bool operator==(const CheckpointPoint&, const CheckpointPoint&) = default;
};

// The disk is full, or the folder may not be written: names the path and the system's reason.
class CheckpointError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct CheckpointSave {
  std::string folder;  // Of all checkpoints of the run.
  CheckpointPoint point;
  const model::Transformer& transformer;
  const ModelState& state;
  int keep = 2;  // The newest; older ones are removed afterwards.
  // For tests: told how many bytes of this save the system has taken and how many come next, gives
  // how many of those to write at once. May kill the process, or throw.
  std::function<std::size_t(std::size_t written, std::size_t wanted)> pace;
};
// Gives the checkpoint's folder when it is on the disk. Errors: throws CheckpointError.
std::string save_checkpoint(const CheckpointSave& save);

struct Checkpoint {
  std::string path;
  std::string config;  // The text of its config.json.
  CheckpointPoint point;
  ModelState state;
  std::vector<std::string> damaged;  // Newer ones, passed over, each with its reason.
};
// The newest that is whole. Errors: there is none.
model::Result<Checkpoint> load_newest_checkpoint(const std::string& folder,
                                                 const model::Transformer& transformer);

bool has_checkpoints(const std::string& folder);

// The path and the text of config.json in a folder as Hugging Face writes it; nothing without one.
std::string config_path(const std::string& folder);
std::optional<std::string> config_text(const std::string& folder);

// Only the weights of a folder as Hugging Face writes it, in one file or in many with an index.
// Errors: the files cannot be read; the configuration asks for what the host does not compute.
model::Result<ModelState> load_huggingface_weights(const std::string& folder,
                                                   const model::Transformer& transformer);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_CHECKPOINT_H_
