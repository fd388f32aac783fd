#!/bin/bash
GPUS_PER_NODE=8
NUM_NODES=${NUM_NODES:-16}
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
ARGS=(
  --num-layers 96 # of them
  --hidden-size 12288
  --num-attention-heads 96
  --seq-length 2048
  --tensor-model-parallel-size 8
)
if [[ -n $X ]]; then TP=4; fi
torchrun --nproc_per_node $GPUS_PER_NODE pretrain_gpt.py ${ARGS[@]} \
  --pipeline-model-parallel-size $((WORLD_SIZE / 8 / 2)) --micro-batch-size 1 --global-batch-size 1536
