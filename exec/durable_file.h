// Files that outlive the process and the machine's power: what was handed over is on the disk when
// a call returns. The one file that makes these system calls.
#ifndef MEGATWIN_EXEC_DURABLE_FILE_H_
#define MEGATWIN_EXEC_DURABLE_FILE_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace megatwin::exec {

// How many of `wanted` bytes to write at once, asked before each piece.
using WritePace = std::function<std::size_t(std::size_t wanted)>;

// Errors: all throw std::system_error whose text names the path.
void write_durably(const std::string& path, std::string_view bytes, const WritePace& pace);
void make_folder(const std::string& path);  // With those on the way.

// Why a folder, made when it is not there, would take no new file: tried with an empty folder,
// which is removed again. Nothing when it would.
std::optional<std::string> folder_problem(const std::string& path);
// A name inside of `folder` was made, renamed or removed.
void sync_folder(const std::string& folder);
void rename_durably(const std::string& from, const std::string& to);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_DURABLE_FILE_H_
