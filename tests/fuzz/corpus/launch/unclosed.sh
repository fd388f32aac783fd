X="unclosed
--num-layers 4 pretrain_gpt.py $(