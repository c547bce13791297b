;; expect: config
;; role: sampler
(data (i32.const 10240) "\e2\80\ae txet \e2\80\8b\ef\bb\bf\c2\85\e2\80\a8 E_OK\r\n")
(func (export "step") (param i32) (result i32) (i32.const -0x40000001))
