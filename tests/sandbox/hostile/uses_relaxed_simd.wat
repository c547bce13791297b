;; expect: 1.12
;; role: sampler
(func (result v128) (i8x16.relaxed_swizzle (v128.const i64x2 0 0) (v128.const i64x2 0 0)))
