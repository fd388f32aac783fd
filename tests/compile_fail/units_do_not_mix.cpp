// Must not compile, for the reason named by the macro; with none defined it must. One fault a
// macro, so that a failure of another kind is not taken for the right one.
#include "model/ids.h"
#include "model/units.h"

using megatwin::model::Bytes;
using megatwin::model::BytesPerSecond;
using megatwin::model::RankId;
using megatwin::model::Seconds;
using megatwin::model::StageId;
using megatwin::model::Watts;

Seconds time_of(Bytes size, BytesPerSecond rate) { return size / rate; }

#ifdef ADD_BYTES_TO_SECONDS
auto wrong = Bytes{1} + Seconds{1};
#endif
#ifdef COMPARE_BYTES_WITH_RATE
bool wrong = Bytes{1} < BytesPerSecond{1};
#endif
#ifdef TIME_FROM_PRODUCT
Seconds wrong = Bytes{1} * BytesPerSecond{1};
#endif
#ifdef BARE_NUMBER_AS_TIME
Seconds wrong() { return 1.0; }
#endif
#ifdef WATTS_WITH_BYTES
auto wrong = Watts{1} + Bytes{1};
#endif
#ifdef RANK_AS_STAGE
StageId wrong = RankId{1};
#endif
