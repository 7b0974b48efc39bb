"""Codes and words: codes of any width from 1 to 32 bits, packed without a gap into 32-bit words.

The last axis is packed.  Code i occupies bits [i*width, (i+1)*width) of the row's bit stream, and
word j holds bits [32*j, 32*j + 32) of it; a code may straddle two words, and the last word of a
row is filled with zero bits.  `order` says which end of a word the stream enters first; it orders
lanes, never the host's bytes.  Four codes of 8 bits in one word::

    order        bits 31..24   23..16   15..8    7..0     the stream is
    "little"     code 3        code 2   code 1   code 0   words.astype("<u4").tobytes(), LSB first
    "big"        code 0        code 1   code 2   code 3   words.astype(">u4").tobytes(), MSB first

How it is done: a word is cut into units of 8, 16 or 32 bits, the smallest that the width divides
(else 32), and the lanes repeat after lcm(width, unit) bits.  For each lane of one such period a
shift moves the codes of all periods at once.  Arrays go through in chunks, so that the memory
beyond input and output is that of one chunk.

Source: feather_ref's own rule.  "little" is the order of ONNX, torchao, TransformerEngine and
CUDA's cuda_fp4.h and cuda_fp6.h; "big" reads like the words on paper.
"""
