// Runs a plain loop with the widest vector registers that the machine has. All widths give the same
// bits: the order of a sum is that of the source, and no product is fused with a sum
// (-ffp-contract=off). Private to the reference kernels.
#ifndef MEGATWIN_KERNELS_REFERENCE_REGISTERS_H_
#define MEGATWIN_KERNELS_REFERENCE_REGISTERS_H_

namespace megatwin::kernels::reference {

#if defined(__x86_64__)
template <class Operation>
[[gnu::target("avx512f")]] void run_with_512_bits(const Operation& operation) {
  operation.template run<64>();
}
template <class Operation>
[[gnu::target("avx2")]] void run_with_256_bits(const Operation& operation) {
  operation.template run<32>();
}
#endif

// Calls operation.run<bytes of a register>(), which must be always_inline down to its loops: only
// then are they compiled for those registers.
template <class Operation>
void run_with_widest_registers(const Operation& operation) {
#if defined(__x86_64__)
  static const bool has_512_bits = __builtin_cpu_supports("avx512f") != 0;
  static const bool has_256_bits = __builtin_cpu_supports("avx2") != 0;
  if (has_512_bits) {
    return run_with_512_bits(operation);
  }
  if (has_256_bits) {
    return run_with_256_bits(operation);
  }
#endif
  operation.template run<16>();
}

}  // namespace megatwin::kernels::reference

#endif  // MEGATWIN_KERNELS_REFERENCE_REGISTERS_H_
