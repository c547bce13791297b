;; expect: invalid
;; role: sampler
;; tier: topk:4
;; layout: logits=0 logits_stride=0 candidates=16384 candidate_capacity=4
(func (export "step") (param i32) (result i32)
  (f32.store (i32.const 16388) (f32.const nan))
  (i32.store (i32.const 8320) (i32.const 16))
  (i32.store (i32.const 8324) (i32.const 3))
  (i32.store (i32.const 8328) (i32.const 0))
  (i32.store (i32.const 8332) (i32.const 0))
  (i32.const 0))
