# megatwin_embed(TARGET FILE SYMBOL): puts a file's bytes into TARGET as the C symbols SYMBOL_begin and
# SYMBOL_end, so that the program finds its catalogue wherever it is copied to.
function(megatwin_embed target file symbol)
  get_filename_component(path ${file} ABSOLUTE)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/embed_${symbol}.S)
  file(WRITE ${source}.new
"  .section .rodata\n  .global ${symbol}_begin\n  .global ${symbol}_end\n  .balign 16\n${symbol}_begin:\n  .incbin \"${path}\"\n${symbol}_end:\n  .byte 0\n  .section .note.GNU-stack,\"\",%progbits\n")
  configure_file(${source}.new ${source} COPYONLY)
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS ${path} LANGUAGE ASM)
  target_sources(${target} PRIVATE ${source})
endfunction()
