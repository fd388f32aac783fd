// What users have set of Open MPI, in the environment or in files of MCA parameters, so that a
// default of ours takes no choice of theirs away.
#ifndef MEGATWIN_CLI_MPI_OPEN_MPI_SETTINGS_H_
#define MEGATWIN_CLI_MPI_OPEN_MPI_SETTINGS_H_

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace megatwin::cli {

// The files that Open MPI reads, the first that names a parameter wins: those of
// OMPI_MCA_mca_base_param_files, else of the user and of the system. Not thread-safe, as getenv().
std::vector<std::string> parameter_files();

// What a file of lines "name = value" gives `name`; nothing when it does not.
std::optional<std::string> parameter_in(std::istream& file, std::string_view name);

// The environment's value, else that of the files. Not thread-safe.
std::optional<std::string> parameter_set(const std::string& name);

// Whether a list of components leaves us each of `wanted`: one that excludes others ("^ucx,ofi")
// does, one that names what is to be used ("tcp,self") was a choice.
bool leaves(std::string_view list, const std::vector<std::string_view>& wanted);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_MPI_OPEN_MPI_SETTINGS_H_
