// How many tokens each rank of an expert group sends to each expert or rank: a table of a router's
// choices, for the disturbance expert-imbalance.
#ifndef MEGATWIN_SCENARIOS_TOKEN_TABLE_H_
#define MEGATWIN_SCENARIOS_TOKEN_TABLE_H_

#include <string>
#include <vector>

#include "model/disturbance.h"
#include "model/plan.h"
#include "model/result.h"
#include "model/transformer.h"
#include "scenarios/map_reader.h"

namespace megatwin::scenarios {

using TokenTable = std::vector<std::vector<double>>;  // [from][to]

// `tokens` of an entry of `disturbances`: a list of rows, or the path of a CSV file of them without
// a header; empty when it was reported. Lines that begin with # are comments.
TokenTable read_token_table(MapReader& entry, const std::string& folder);

// The same of a file alone. Errors: no such file; a cell that is no number; rows of unlike length.
model::Result<TokenTable> load_token_table(const std::string& path);

// Makes the table one of ranks by ranks, columns of one rank's experts added, and sets the entry's
// factor: the busiest rank's tokens over the mean. Reports a table of another size, and one whose
// rows differ by more than a twentieth of their mean, since every rank routes as many tokens.
void fit_token_table(MapReader& entry, const model::Plan& plan,
                     const model::MixtureOfExperts& experts, model::Disturbance& disturbance);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_TOKEN_TABLE_H_
