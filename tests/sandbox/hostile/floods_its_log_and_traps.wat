;; expect: trap
;; role: sampler
;; layout: log=20480
(func (export "step") (param i32) (result i32)
  (local $i i32)
  (loop $more
    (memory.fill (i32.const 20484) (i32.const 0x1b) (i32.const 4096))
    (i32.store (i32.const 20480) (i32.mul (local.get $i) (i32.const 0x01234567)))
    (br_if $more (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 1000))))
  (unreachable))
