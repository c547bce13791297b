;; expect: trap
;; role: tokenizer
(func (export "encode") (param i32 i32) (result i32) (unreachable))
