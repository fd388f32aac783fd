// What a rank has to say after a run, in a letter to a process that it does not live in.
#ifndef MEGATWIN_EXEC_REPORT_LETTER_H_
#define MEGATWIN_EXEC_REPORT_LETTER_H_

#include "exec/host_job.h"
#include "model/byte_stream.h"

namespace megatwin::exec {

ByteVector report_letter(const HostRankReport& report);
HostRankReport report_of(const ByteVector& letter);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_REPORT_LETTER_H_
