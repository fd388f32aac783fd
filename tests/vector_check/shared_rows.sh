#!/bin/sh
# shared_rows.sh PROGRAM SOURCE_DIR: vector_check over the shared test vectors, where they are.
rows="${MEGATWIN_SHARED:-$2/../shared}/data/test_vectors.csv"
if [ ! -f "$rows" ]; then
  echo "skipped: no ../shared"
  exit 0
fi
exec "$1" "$rows"
