;; expect: trap
;; role: sampler
;; layout: log=20480
(func (export "step") (param i32) (result i32) (i32.store (i32.const 20480) (i32.const -1)) (unreachable))
