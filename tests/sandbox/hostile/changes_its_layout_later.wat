;; expect: ok
;; role: sampler
(global $asked (mut i32) (i32.const 64))
(func (export "layout") (result i32) (global.get $asked) (global.set $asked (i32.const 0)))
(func (export "step") (param i32) (result i32)
  (memory.fill (i32.const 64) (i32.const 0xff) (i32.const 64)) (i32.store (i32.const 8320) (i32.const 16)) (i32.store (i32.const 8324) (i32.const 6)) (i32.const 0))
