;; expect: config
;; role: sampler
(data (i32.const 10240) "\ff\fe\c0\80\ed\a0\80\f4\90\80\80 overlong, halves, beyond, and cut \e2\82")
(func (export "step") (param i32) (result i32) (i32.const -0x40000001))
