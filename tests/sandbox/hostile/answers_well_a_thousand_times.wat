;; expect: invalid
;; role: sampler
;; steps: 1001
;; layout: history=65536 history_capacity=2048
(global $calls (mut i32) (i32.const 0))
(func (export "step") (param i32) (result i32)
  (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
  (i32.store (i32.const 8320) (i32.const 16)) (i32.store (i32.const 8324) (i32.const 1))
  (i32.store (i32.const 8328) (select (i32.const 260) (i32.const 7) (i32.gt_u (global.get $calls) (i32.const 1000))))
  (i32.const 0))
