;; expect: 1.8
;; role: sampler
(type $f (func (result i32)))
(func (param (ref null $f)) (result i32) (call_ref $f (local.get 0)))
