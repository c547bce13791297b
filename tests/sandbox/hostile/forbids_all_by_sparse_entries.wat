;; expect: empty
;; role: sampler
;; tier: mask
;; layout: logits=0 logits_stride=0 answer=12288 answer_capacity=4096
(func (export "step") (param i32) (result i32)
  (local $i i32)
  (loop $next
    (i32.store (i32.add (i32.const 12288) (i32.shl (local.get $i) (i32.const 3))) (local.get $i))
    (f32.store (i32.add (i32.const 12292) (i32.shl (local.get $i) (i32.const 3))) (f32.const -inf))
    (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 260))))
  (i32.store (i32.const 8320) (i32.const 16))
  (i32.store (i32.const 8324) (i32.const 5))
  (i32.store (i32.const 8332) (i32.const 260))
  (i32.const 0))
