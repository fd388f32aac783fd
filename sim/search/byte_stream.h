// The bytes of messages between the processes of a search; see model/byte_stream.h.
#ifndef MEGATWIN_SIM_SEARCH_BYTE_STREAM_H_
#define MEGATWIN_SIM_SEARCH_BYTE_STREAM_H_

#include "model/byte_stream.h"

namespace megatwin::sim {

using model::ByteReader;
using model::ByteWriter;

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_BYTE_STREAM_H_
