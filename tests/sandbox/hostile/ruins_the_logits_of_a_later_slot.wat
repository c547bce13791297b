;; expect: empty
;; role: sampler
;; slots: 2
;; layout: max_rows=2 rows=20480 results=20992 history=21504 logits=32768
(func (export "step") (param $rows i32) (result i32)
  ;; passes for both, as if nothing had happened to what the host draws from
  (memory.fill (i32.const 36864) (i32.const 0xff) (i32.const 4096))
  (i32.store (i32.const 20992) (i32.const 16)) (i32.store (i32.const 20996) (i32.const 2))
  (i32.store (i32.const 21008) (i32.const 16)) (i32.store (i32.const 21012) (i32.const 2)) (i32.const 0))
