;; A well-behaved sampler: answers the id of the largest logit (the lowest one of equals).
;; Its areas are those of SAMPLER_LAYOUT in conftest.py.
(func (export "sealhost_sampler_v1") (result i32) (i32.const 0))
(func (export "layout") (result i32) (i32.const 64))
(func (export "init") (result i32) (i32.const 0))
(func (export "reset") (result i32) (i32.const 0))
(func (export "step") (param $rows i32) (result i32)
  (local $i i32) (local $best i32) (local $count i32)
  (local.set $count (i32.load (i32.const 8204)))
  (loop $next
    (if (f32.gt (f32.load offset=4096 (i32.shl (local.get $i) (i32.const 2)))
                (f32.load offset=4096 (i32.shl (local.get $best) (i32.const 2))))
      (then (local.set $best (local.get $i))))
    (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $count))))
  (i32.store (i32.const 8320) (i32.const 16))
  (i32.store (i32.const 8324) (i32.const 1))
  (i32.store (i32.const 8328) (local.get $best))
  (i32.const 0))
