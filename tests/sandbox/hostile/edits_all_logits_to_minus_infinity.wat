;; expect: empty
;; role: sampler
(func (export "step") (param i32) (result i32)
  (local $i i32) (loop $l (f32.store offset=4096 (local.get $i) (f32.const -inf)) (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 4))) (i32.const 2048)))) (i32.store (i32.const 8320) (i32.const 16)) (i32.store (i32.const 8324) (i32.const 3)) (i32.const 0))
