;; expect: trap
;; role: sampler
;; layout: log=20480
(data (i32.const 20484) "\ff\fe\c0\80\ed\a0\80\e2\80\ae\1b]0;title\07\00 cut \e2\82")
(func (export "step") (param i32) (result i32) (i32.store (i32.const 20480) (i32.const 40)) unreachable)
