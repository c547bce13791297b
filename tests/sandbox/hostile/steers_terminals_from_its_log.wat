;; expect: trap
;; role: sampler
;; layout: log=20480
(data (i32.const 20484) "\1b]0;owned\07\0a\c2\9b31m\e2\80\ae")
(func (export "step") (param i32) (result i32) (i32.store (i32.const 20480) (i32.const 20)) (unreachable))
